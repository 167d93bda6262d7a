import { textParams } from "../../lib/search";

export const tasksSearch = (raw: Record<string, unknown>) => textParams(raw, ["repository", "is_quarantined"]);
