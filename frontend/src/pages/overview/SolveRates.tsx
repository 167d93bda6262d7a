import type { Stage } from "../../api/types";
import { DotInterval, type Estimate, type Reference } from "../../components/DotInterval";

/** Solve rate of each evaluation with its interval, the paired difference to the one before, what invalid attempts may hide (article, figure 8). */
export function SolveRates({ stages }: { stages: Stage[] }) {
  return (
    <DotInterval
      title="Solve rate"
      note="pass@1, an invalid attempt as unsolved; 95 % clustered by task"
      estimates={estimatesOf(stages)}
      references={baselinesOf(stages)}
      pending={stages.filter((stage) => stage.kind === "eval" && stage.result === null).map((stage) => stage.name)}
      empty="This recipe has no eval stage"
    />
  );
}

export function estimatesOf(stages: readonly Stage[]): Estimate[] {
  return stages.flatMap(({ name, result }) =>
    result === null
      ? []
      : [
          {
            label: name,
            value: result.pass_at_1,
            low: result.low,
            high: result.high,
            upTo: result.if_invalid_solved,
            ...(result.paired === null
              ? {}
              : { difference: { against: result.paired.against, value: result.paired.mean, low: result.paired.low, high: result.paired.high } }),
            note: `${result.tasks} tasks, ${result.attempts} valid${result.invalid > 0 ? `, ${result.invalid} invalid` : ""}`,
          },
        ],
  );
}

export function baselinesOf(stages: readonly Stage[]): Reference[] {
  const last = stages.findLast((stage) => Object.keys(stage.baselines).length > 0);
  return Object.entries(last?.baselines ?? {}).map(([name, { mean }]) => ({
    label: name.replaceAll("_", " "),
    value: mean,
  }));
}
