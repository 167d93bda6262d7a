/** Does it learn? The two answers that a run gives: reward on its training tasks, pass@1 on those held out. */
import type { Stage } from "../../api/types";
import { type Point, prepareSeries } from "../../lib/series";

export type RewardTrend = { first: number; last: number; numSteps: number };

/** The 10-step mean where it is first whole and where it is now; null before two means can be told apart. */
export function rewardTrend(points: readonly Point[], window = 10): RewardTrend | null {
  const means = prepareSeries(points, window).mean.filter((value) => value !== null);
  const first = means[window - 1];
  const last = means.at(-1);
  if (first === undefined || last === undefined || means.length < 2 * window) return null;
  return { first, last, numSteps: means.length };
}

export type SolveTrend = {
  first: { stage: string; value: number };
  last: { stage: string; value: number };
  /** Against the evaluation before it, over the same tasks. */
  paired: { against: string; mean: number; low: number; high: number } | null;
};

export function solveTrend(stages: readonly Pick<Stage, "name" | "result">[]): SolveTrend | null {
  const evaluated = stages.flatMap(({ name, result }) => (result === null ? [] : [{ name, result }]));
  const first = evaluated[0];
  const last = evaluated.at(-1);
  if (first === undefined || last === undefined) return null;
  return {
    first: { stage: first.name, value: first.result.pass_at_1 },
    last: { stage: last.name, value: last.result.pass_at_1 },
    paired: last.result.paired,
  };
}
