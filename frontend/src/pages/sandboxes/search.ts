import { countParam, optional, textParams } from "../../lib/search";

export const sandboxesSearch = (raw: Record<string, unknown>) => textParams(raw, ["status", "driver"]);
export const sandboxSearch = (raw: Record<string, unknown>) => optional("line", countParam(raw, "line"));
