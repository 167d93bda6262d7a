import { countParam, optional, textParams } from "../../lib/search";

/** The filters of `GET /runs/{run}/trajectories`, by the same words. */
export const FILTERS = [
  "stage", "status", "outcome", "reward", "stop_reason", "task", "repository", "turns", "tokens", "duration", "staleness", "driver", "failure",
  "is_valid", "is_zero_gradient", "q",
] as const;

/** Filters of the trajectory list; the inspector carries them, so that J and K walk the same list. */
export const trajectoriesSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, [...FILTERS, "sort", "cols"]),
  ...optional("group", countParam(raw, "group")),
  ...optional("step", countParam(raw, "step")),
  ...optional("engine", countParam(raw, "engine")),
});

export type TrajectoriesSearch = ReturnType<typeof trajectoriesSearch>;

/** "gte:8,lte:20" as the two ends of a range; undefined where it says more than that. */
export function rangeOf(text: string | undefined): { from: string; to: string } | undefined {
  const range = { from: "", to: "" };
  for (const part of (text ?? "").split(",")) {
    const [word, number] = part.includes(":") ? part.split(":") : ["", part];
    if (part === "") continue;
    if (word === "gte" && range.from === "") range.from = number ?? "";
    else if (word === "lte" && range.to === "") range.to = number ?? "";
    else return undefined;
  }
  return range;
}

export function rangeText({ from, to }: { from: string; to: string }): string | undefined {
  const parts = [...(from === "" ? [] : [`gte:${from}`]), ...(to === "" ? [] : [`lte:${to}`])];
  return parts.length === 0 ? undefined : parts.join(",");
}

/** A word added to or taken from "solved,invalid". */
export function withWord(text: string | undefined, word: string): string | undefined {
  const words = (text ?? "").split(",").filter((one) => one !== "");
  const next = words.includes(word) ? words.filter((one) => one !== word) : [...words, word];
  return next.length === 0 ? undefined : next.join(",");
}
