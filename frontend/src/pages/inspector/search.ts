import { choiceParam, countParam, optional } from "../../lib/search";
import { trajectoriesSearch } from "../trajectories/search";

export const INSPECTOR_TABS = ["transcript", "timeline", "patch", "tests", "tokens", "logs", "sandbox", "raw", "siblings"] as const;

export const inspectorSearch = (raw: Record<string, unknown>) => ({
  ...trajectoriesSearch(raw),
  ...optional("tab", choiceParam(raw, "tab", INSPECTOR_TABS)),
  ...optional("turn", countParam(raw, "turn")),
  ...optional("attempt", countParam(raw, "attempt")),
  ...optional("line", countParam(raw, "line")),
});
