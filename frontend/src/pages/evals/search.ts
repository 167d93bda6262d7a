import { choiceParam, optional, textParams } from "../../lib/search";

export const SHOWN = ["differ", "wins", "losses"] as const;

/** `arms` are evaluation stages, comma-separated ids; `show` narrows the tasks by the last arm against the first. */
export const compareEvalsSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["arms"]),
  ...optional("show", choiceParam(raw, "show", SHOWN)),
});
