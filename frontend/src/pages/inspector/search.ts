import { choiceParam, countParam, optional, textParams } from "../../lib/search";
import { TOKEN_COLORINGS } from "../../lib/tokenColors";
import { trajectoriesSearch } from "../trajectories/search";

export const INSPECTOR_TABS = ["transcript", "timeline", "patch", "tests", "tokens", "logs", "sandbox", "raw", "siblings"] as const;
export type InspectorTab = (typeof INSPECTOR_TABS)[number];

export const inspectorSearch = (raw: Record<string, unknown>) => ({
  ...trajectoriesSearch(raw),
  ...optional("tab", choiceParam(raw, "tab", INSPECTOR_TABS)),
  ...optional("turn", countParam(raw, "turn")),
  ...optional("attempt", countParam(raw, "attempt")),
  /** Logs: the line that is linked to, and the last of a range. */
  ...optional("line", countParam(raw, "line")),
  ...optional("to_line", countParam(raw, "to_line")),
  ...textParams(raw, ["find"]),
  ...optional("regex", choiceParam(raw, "regex", ["true"])),
  /** Tokens: what colours them, and the first that is shown. */
  ...optional("color", choiceParam(raw, "color", TOKEN_COLORINGS)),
  ...optional("token", countParam(raw, "token")),
  ...optional("facts", choiceParam(raw, "facts", ["off"])),
});
