import { choiceParam, countParam, optional, textParams } from "../../lib/search";

export const TIME_POPULATIONS = ["finished_ok", "finished", "with_in_flight"] as const;

export const overviewSearch = (raw: Record<string, unknown>) => optional("time", choiceParam(raw, "time", TIME_POPULATIONS));
export const eventsSearch = (raw: Record<string, unknown>) => textParams(raw, ["level", "kind"]);
/** `step` is the id of an open step; `a` and `b` are windows to compare, as "1-20". */
export const stepsSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["stage", "resume", "a", "b", "cols"]),
  ...optional("step", countParam(raw, "step")),
});
