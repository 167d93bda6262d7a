import type { MetricSeries } from "../../../api/types";
import { type Curve, MetricChart } from "../../../components/MetricChart";
import { prepareSeries, readValue } from "../../../lib/series";

export const CURVES = [
  "reward/mean", "train/grad_norm", "train/logprob_gap", "train/logprob_gap/lag_0", "train/ess", "train/ess/lag_0", "rollout/response_tokens",
  "train/zero_gradient",
] as const;

type Props = { series: readonly MetricSeries[] | undefined; maxGradNorm: number | undefined; tokenCap: number | undefined };

/** Six curves with one cursor: red-orange is measured on rollouts, purple on the trainer (article, figure 9). */
export function Curves({ series, maxGradNorm, tokenCap }: Props) {
  const curve = (name: (typeof CURVES)[number], label: string, color: string) => curveOf(series, name, label, color);
  const zero = curve("train/zero_gradient", "zero gradient", "--tone-unsolved");
  const effective = prepareSeries("points" in zero ? zero.points : []).raw;
  const num = effective.filter((value) => value === 1).length;
  return (
    <>
      <MetricChart title="Reward" note="mean over valid trajectories of a step" curves={[curve("reward/mean", "reward", "--role-rollout")]} range={{ min: 0 }} />
      <MetricChart
        title="Gradient norm" note="before clipping; zoomed to its normal range" clip
        curves={[curve("train/grad_norm", "norm", "--role-trainer")]}
        thresholds={maxGradNorm === undefined ? [] : [{ label: "clip", value: maxGradNorm }]}
        range={{ min: 0 }}
      />
      <MetricChart
        title="Log-prob gap" note="mean |log π − log μ| over trained tokens"
        curves={[curve("train/logprob_gap", "all tokens", "--role-trainer"), curve("train/logprob_gap/lag_0", "lag 0 (engine mismatch)", "--role-llm")]}
        range={{ min: 0 }}
      />
      <MetricChart
        title="Effective sample size" note="share of trained tokens"
        curves={[curve("train/ess", "all tokens", "--role-trainer"), curve("train/ess/lag_0", "lag 0 (engine mismatch)", "--role-llm")]}
        range={{ max: 1 }}
      />
      <MetricChart
        title="Response length" note="mean trained tokens of a trajectory"
        curves={[curve("rollout/response_tokens", "tokens", "--role-rollout")]}
        thresholds={tokenCap === undefined ? [] : [{ label: "cap", value: tokenCap }]}
        range={{ min: 0 }}
      />
      <MetricChart
        title="Steps without a gradient" note={`${num} of ${effective.length}: no group had mixed rewards`} window={1}
        curves={[zero]}
        range={{ min: 0, max: 1 }}
      />
    </>
  );
}

export function curveOf(series: readonly MetricSeries[] | undefined, name: string, label: string, color: string): Curve {
  const points = series?.find((one) => one.name === name)?.points ?? [];
  return { label, color, points: points.map(({ resume, step, value }) => ({ resume, step, value: readValue(value) })) };
}
