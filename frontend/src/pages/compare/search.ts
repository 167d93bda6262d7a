import { Y_SCALES } from "../../components/metricPlot";
import { X_AXES } from "../../lib/axis";
import { choiceParam, countParam, optional, textParams } from "../../lib/search";

/** `ids` are runs and `keys` curves, comma-separated; `base` is the run that the others are held against. */
export const compareSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["ids", "smooth", "keys"]),
  ...optional("x", choiceParam(raw, "x", X_AXES)),
  ...optional("scale", choiceParam(raw, "scale", Y_SCALES)),
  ...optional("base", countParam(raw, "base")),
  ...optional("view", choiceParam(raw, "view", ["difference"])),
  ...optional("recipe", choiceParam(raw, "recipe", ["all"])),
});

export type CompareSearch = ReturnType<typeof compareSearch>;
export type CompareChange = { [Key in keyof CompareSearch]?: CompareSearch[Key] | undefined };

export const MAX_RUNS = 10;

/** The runs of the address, each once, in order. */
export function readIds(text: string | undefined): number[] {
  const ids = (text ?? "").split(",").map(Number).filter((id) => Number.isInteger(id) && id > 0);
  return [...new Set(ids)];
}

export function readKeys(text: string | undefined): string[] {
  return [...new Set((text ?? "").split(",").filter((key) => key !== ""))];
}
