import { countParam, optional, textParams } from "../../lib/search";

export const launchSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["recipe"]),
  ...optional("from_run", countParam(raw, "from_run")),
  ...optional("from_checkpoint", countParam(raw, "from_checkpoint")),
});
