import { X_AXES } from "../../lib/axis";
import { choiceParam, optional, textParams } from "../../lib/search";
import { Y_SCALES } from "../../components/metricPlot";

/** `x`, `smooth`, `from`, `to` are the words of the API's query; `show` is the one curve that fills the page. */
export const chartsSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["q", "smooth", "show"]),
  ...optional("x", choiceParam(raw, "x", X_AXES)),
  ...optional("from", place(raw.from)),
  ...optional("to", place(raw.to)),
  ...optional("scale", choiceParam(raw, "scale", Y_SCALES)),
  ...optional("clip", choiceParam(raw, "clip", ["p1-p99"])),
  ...optional("ghosts", choiceParam(raw, "ghosts", ["off"])),
});

export type ChartsSearch = ReturnType<typeof chartsSearch>;

function place(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
