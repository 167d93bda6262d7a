import { countParam, optional, textParams } from "../../lib/search";

/** Filters of the trajectory list; the inspector carries them, so that J and K walk the same list. */
export const trajectoriesSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["stage", "status", "reward", "stop_reason", "task", "sort", "cols"]),
  ...optional("group", countParam(raw, "group")),
});
