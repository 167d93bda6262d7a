import { textParams } from "../../lib/search";

export const tailSearch = (raw: Record<string, unknown>) => textParams(raw, ["stage", "step", "cap", "at"]);
