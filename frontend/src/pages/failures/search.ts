import { countParam, optional, textParams } from "../../lib/search";

export const failuresSearch = (raw: Record<string, unknown>) => textParams(raw, ["stage", "kind", "state", "sort"]);
export const failureSearch = (raw: Record<string, unknown>) => optional("run", countParam(raw, "run"));
