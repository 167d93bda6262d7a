/** What is wrong with a run: checks on what the page shows anyway, each with its threshold and where to look. */
import type { MetricSeries, Overview, RunDetail } from "../../api/types";
import { formatCount, formatNumber, formatShare } from "../../lib/format";
import { mean } from "../../lib/quantiles";
import { prepareSeries, readValue } from "../../lib/series";

export type FindingTab = "charts" | "steps" | "tail" | "groups" | "failures" | "engines" | "trajectories" | "events";
export type Finding = { level: "warning" | "error"; sentence: string; tab: FindingTab };
type Seen = { run: RunDetail; overview: Overview; series: readonly MetricSeries[]; maxGradNorm: number };

/** One threshold warns, the next is an error; null is no finding. */
function above(value: number | null, warning: number, error: number): Finding["level"] | null {
  if (value === null || !Number.isFinite(value) || value <= warning) return null;
  return value > error ? "error" : "warning";
}

type Check = { name: string; tab: FindingTab; look: (seen: Seen) => [Finding["level"] | null, string] };

const CHECKS: readonly Check[] = [
  {
    name: "the run's state", tab: "events",
    look: ({ run }) => [run.status === "failed" ? "error" : null, run.stop_reason || "The run failed."],
  },
  {
    name: "trajectories trained twice", tab: "steps",
    look: ({ run: { counts } }) => [counts.trained_twice > 0 ? "error" : null, `${formatCount(counts.trained_twice)} trajectories were trained twice, which must not happen.`],
  },
  {
    name: "infrastructure failures", tab: "failures",
    look: ({ overview: { loop } }) => {
      const ended = loop.solved + loop.unsolved + loop.invalid;
      const share = ended === 0 ? null : loop.invalid / ended;
      return [above(share, 0.05, 0.1), `${formatShare(share)} of ${formatCount(ended)} trajectories ended without a reward: the infrastructure failed them.`];
    },
  },
  {
    name: "model calls", tab: "failures",
    look: ({ overview: { calls } }) => [
      calls.calls < 1000 ? null : above(calls.error_rate, 0.005, 0.02),
      `${formatShare(calls.error_rate)} of ${formatCount(calls.calls)} model calls failed.`,
    ],
  },
  {
    name: "engines", tab: "engines",
    look: ({ run, overview: { topology } }) => {
      const { num, num_serving, num_lost, lag } = topology.engines;
      if (run.finished_at !== null || run.status === "queued") return [null, ""];
      if (num > 0 && num_serving === 0) return ["error", `None of ${num} engines serves.`];
      if (lag > 1) return ["warning", `An engine is ${lag} weight versions behind.`];
      return [num_lost > 0 ? "warning" : null, `${num_lost} engines were lost.`];
    },
  },
  {
    name: "KV cache", tab: "engines",
    look: ({ overview: { topology } }) => [above(topology.engines.kv_max, 0.85, 0.95), `An engine's KV cache is ${formatShare(topology.engines.kv_max)} full: its queue will starve.`],
  },
  {
    name: "engine queue", tab: "engines",
    look: ({ overview: { topology } }) => {
      const { queued, num_serving } = topology.engines;
      return [num_serving === 0 ? null : above(queued / num_serving, 8, 32), `${formatCount(queued)} calls wait in the queues of ${num_serving} engines.`];
    },
  },
  {
    name: "production against consumption", tab: "groups",
    look: ({ run, overview: { balance } }) => {
      const { produced_per_h: made, consumed_per_h: used } = balance;
      const ratio = made === null || used === null || used === 0 || run.finished_at !== null ? null : made / used;
      return [above(ratio, 1.5, 3), `${formatNumber(ratio)} times as many trajectories are produced as are consumed: the rest goes stale.`];
    },
  },
  {
    name: "zero-gradient steps", tab: "steps",
    look: ({ series }) => {
      const recent = lastOf(series, "train/zero_gradient", 20);
      const num = recent.filter((value) => value === 1).length;
      return [above(num, 4, 7), `${num} of the last ${recent.length} steps had no gradient: no group had mixed rewards.`];
    },
  },
  {
    name: "log-prob gap", tab: "charts",
    look: ({ series }) => {
      const gap = mean(lastOf(series, "train/logprob_gap/lag_0", 5));
      return [above(gap, 0.02, 0.05), `The log-prob gap at lag 0 is ${formatNumber(gap)} nats: engine and trainer disagree about the same weights.`];
    },
  },
  {
    name: "effective sample size", tab: "charts",
    look: ({ series }) => {
      const ess = mean(lastOf(series, "train/ess", 5));
      return [ess === null ? null : above(1 - ess, 0.15, 0.3), `The effective sample size is ${formatShare(ess)} over the last 5 steps.`];
    },
  },
  {
    name: "gradient norm", tab: "charts",
    look: ({ series, maxGradNorm }) => {
      const recent = lastOf(series, "train/grad_norm", 10);
      const num = recent.filter((value) => !(value <= maxGradNorm)).length;
      return [above(num, 2, 5), `The gradient was clipped in ${num} of the last ${recent.length} steps.`];
    },
  },
  {
    name: "finite numbers", tab: "charts",
    look: ({ series }) => {
      const lost = series.flatMap(({ name, points }) => points.filter(({ value }) => !Number.isFinite(readValue(value))).map(({ step }) => ({ name, step })));
      const newest = Math.max(0, ...series.flatMap(({ points }) => points.map(({ step }) => step)));
      const isRecent = lost.some(({ step }) => step > newest - 20);
      const steps = [...new Set(lost.map(({ step }) => step))];
      return [
        lost.length === 0 ? null : isRecent ? "error" : "warning",
        `Not finite ${steps.length === 1 ? `at step ${steps[0] ?? ""}` : `at ${steps.length} steps`}: ${[...new Set(lost.map(({ name }) => name))].join(", ")}.`,
      ];
    },
  },
  {
    name: "long tail", tab: "tail",
    look: ({ series }) => {
      const share = mean(lastOf(series, "rollout/tail_share", 10));
      return [above(share, 0.4, 0.55), `${formatShare(share)} of the rollout time of the last 10 steps came after 90 % had finished.`];
    },
  },
  {
    name: "dropped work", tab: "trajectories",
    look: ({ overview: { fates } }) => {
      const of = (...names: string[]) => fates.filter(({ fate }) => names.includes(fate)).reduce((sum, row) => sum + row.trajectories, 0);
      const lost = of("stale", "superseded", "released");
      const all = lost + of("trained", "zero_advantage", "invalid", "cancelled");
      return [above(all === 0 ? null : lost / all, 0.05, 0.2), `${formatShare(all === 0 ? null : lost / all)} of the RL trajectories were dropped: stale, superseded or released.`];
    },
  },
];

export const CHECK_NAMES: readonly string[] = CHECKS.map(({ name }) => name);

/** Errors first. */
export function findings(seen: Seen): Finding[] {
  const found = CHECKS.flatMap(({ tab, look }) => {
    const [level, sentence] = look(seen);
    return level === null ? [] : [{ level, sentence, tab }];
  });
  return [...found.filter(({ level }) => level === "error"), ...found.filter(({ level }) => level === "warning")];
}

/** The last values of the effective history; what was not finite is NaN. */
function lastOf(series: readonly MetricSeries[], name: string, num: number): number[] {
  const points = series.find((one) => one.name === name)?.points ?? [];
  const effective = prepareSeries(points.map(({ resume, step, value }) => ({ resume, step, value: readValue(value) })));
  return effective.raw.slice(-num).map((value) => value ?? NaN);
}
