import { CAPS } from "../../lib/caps";
import { choiceParam, countParam, optional, textParams } from "../../lib/search";

export const tailSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["stage"]),
  ...optional("step", countParam(raw, "step")),
  ...optional("cap", choiceParam(raw, "cap", CAPS)),
  ...optional("at", countParam(raw, "at")),
});
