import { textParams } from "../../lib/search";

export const groupsSearch = (raw: Record<string, unknown>) => textParams(raw, ["stage", "status"]);
export const groupSearch = (raw: Record<string, unknown>) => textParams(raw, ["turn"]);
