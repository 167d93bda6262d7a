import { countParam, optional, textParams } from "../../lib/search";

export const sandboxesSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["status", "driver", "sort"]),
  ...optional("run", countParam(raw, "run")),
  ...optional("is_orphan", raw.is_orphan === true || raw.is_orphan === "true" ? true : undefined),
});
export const sandboxSearch = (raw: Record<string, unknown>) => optional("line", countParam(raw, "line"));
