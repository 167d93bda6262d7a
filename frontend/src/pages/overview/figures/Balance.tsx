import type { MetricSeries, Step } from "../../../api/types";
import { MetricChart } from "../../../components/MetricChart";
import { secondsBetween } from "../../../lib/format";
import type { Point } from "../../../lib/series";
import { curveOf } from "./Curves";

export const BALANCE_CURVES = ["rollout/trajectories_per_h", "rollout/staleness_mean", "rollout/staleness_max", "rollout/tail_share"] as const;

/** Production against consumption, and what comes of a surplus. */
export function Balance({ series, steps }: { series: readonly MetricSeries[] | undefined; steps: readonly Step[] }) {
  return (
    <>
      <MetricChart
        title="Trajectories per hour" note="completed, and trained since the step before"
        curves={[
          curveOf(series, "rollout/trajectories_per_h", "produced", "--role-rollout"),
          { label: "consumed", color: "--role-trainer", points: consumption(steps) },
        ]}
        range={{ min: 0 }} window={1} height={228}
      />
      <MetricChart
        title="Staleness" note="weight versions behind the trainer; mean by token"
        curves={[curveOf(series, "rollout/staleness_mean", "mean", "--role-rollout"), curveOf(series, "rollout/staleness_max", "oldest", "--tone-unsolved")]}
        range={{ min: 0 }} window={1} height={228}
      />
    </>
  );
}

/** What each step consumed, as a rate over the time since the step before it: the figure to hold against production. */
export function consumption(steps: readonly Step[]): Point[] {
  const ended = steps.filter((step) => step.finished_at !== null);
  return ended.flatMap(({ resume, index, num_trajectories, started_at, finished_at }, i) => {
    const before = ended[i - 1];
    const since = before?.resume === resume ? before.finished_at : started_at;
    const seconds = secondsBetween(since, finished_at) ?? 0;
    return seconds > 0 ? [{ resume, step: index, value: (num_trajectories / seconds) * 3600 }] : [];
  });
}
