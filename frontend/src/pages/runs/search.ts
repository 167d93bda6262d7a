import { textParams } from "../../lib/search";

export const runsSearch = (raw: Record<string, unknown>) => textParams(raw, ["status", "name", "sort", "cols", "selected"]);
