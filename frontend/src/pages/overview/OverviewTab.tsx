import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { metricsQuery, runQuery, stepsQuery } from "../../api/runs";
import type { MetricSeries, Step } from "../../api/types";
import { type Curve, MetricChart } from "../../components/MetricChart";
import { StackedBar } from "../../components/StackedBar";
import { Stat, StatRow } from "../../components/Stat";
import { formatCount, formatNumber, formatShare, secondsBetween } from "../../lib/format";
import { type Point, readValue } from "../../lib/series";
import { EventFeed } from "./EventFeed";
import classes from "./OverviewTab.module.css";
import { SolveRates } from "./SolveRates";
import { StageStepper } from "./StageStepper";

const route = getRouteApi("/shell/runs/$run/overview");

const METRICS = [
  "reward/mean", "rollout/trajectories_per_h", "rollout/staleness_mean", "rollout/staleness_max",
  "rollout/tail_share", "rollout/turns_mean", "train/grad_norm", "train/logprob_gap", "train/logprob_gap/lag_0", "train/ess",
  "train/ess/lag_0", "train/entropy", "train/zero_gradient", "sft/loss",
] as const;

/** The first screen: is it alive, what does it wait for, does it learn, what is wrong. */
export function OverviewTab() {
  const { run: id } = route.useParams();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { data: series } = useQuery(metricsQuery(id, METRICS));
  const { data: steps } = useQuery(stepsQuery(id));
  const curve = (name: (typeof METRICS)[number], label: string, color: string) => curveOf(series, name, label, color);
  const { counts } = run;
  const ended = counts.completed + counts.failed;

  return (
    <div className={classes.page}>
      <StatRow label="Now">
        <Stat label="Produced" value={formatCount(counts.produced_per_h)} unit="per h" note="completed trajectories" />
        <Stat label="Consumed" value={formatCount(counts.consumed_per_h)} unit="per h" note="trained trajectories" />
        <Stat label="In flight" value={formatCount(counts.in_flight)} note={`of ${formatCount(counts.max_in_flight)}`} />
        <Stat label="Completed" value={formatCount(counts.completed)} note={`${formatCount(counts.cancelled)} cancelled`} />
        <Stat
          label="Invalid"
          value={formatCount(counts.failed)}
          note={`${formatShare(ended === 0 ? null : counts.failed / ended)} of ended, no reward`}
        />
        <Stat label="Infra failures" value={formatCount(counts.infra_failures)} note="of attempts, tried again" />
        <Stat label="Staleness" value={formatNumber(lastValue(series, "rollout/staleness_mean"))} unit="versions" note="mean of the last step" />
        <Stat label="Steps" value={formatCount(counts.steps_done)} note={`${formatCount(counts.queued)} attempts queued`} />
        <Stat label="Trained twice" value={formatCount(counts.trained_twice)} note="trajectories; must be 0" />
      </StatRow>
      <StageStepper stages={run.stages} />
      <div className={classes.wide}>
        <MetricChart
          title="Reward"
          note="mean over valid trajectories of a step"
          curves={[curve("reward/mean", "reward", "--role-rollout")]}
          range={{ min: 0 }}
          height={200}
        />
        <SolveRates stages={run.stages} />
      </div>
      <div className={classes.grid}>
        <StackedBar
          title="Step breakdown"
          note="seconds; publish is not part of the sum"
          parts={STEP_PARTS}
          lane={PUBLISH}
          bars={(steps ?? []).map((step) => ({
            label: String(step.index),
            isGhost: step.status === "superseded",
            values: { wait: step.wait_s, logprob: step.logprob_s, update: step.update_s, publish: step.publish_s },
          }))}
        />
        <MetricChart
          title="Trajectories per hour"
          note="completed and trained"
          curves={[
            curve("rollout/trajectories_per_h", "produced", "--role-rollout"),
            { label: "consumed", color: "--role-trainer", points: consumption(steps ?? []) },
          ]}
          range={{ min: 0 }}
          window={1}
        />
        <MetricChart
          title="Staleness"
          note="weight versions behind the trainer"
          curves={[
            curve("rollout/staleness_mean", "mean", "--role-rollout"),
            curve("rollout/staleness_max", "oldest", "--tone-unsolved"),
          ]}
          range={{ min: 0 }}
          window={1}
        />
        <MetricChart title="Gradient norm" note="before clipping" curves={[curve("train/grad_norm", "norm", "--role-trainer")]} range={{ min: 0 }} />
        <MetricChart
          title="Log-prob gap"
          note="mean |log π − log μ| over trained tokens"
          curves={[
            curve("train/logprob_gap", "all tokens", "--role-trainer"),
            curve("train/logprob_gap/lag_0", "lag 0 (engine mismatch)", "--role-llm"),
          ]}
          range={{ min: 0 }}
        />
        <MetricChart
          title="Effective sample size"
          note="share of trained tokens"
          curves={[
            curve("train/ess", "all tokens", "--role-trainer"),
            curve("train/ess/lag_0", "lag 0 (engine mismatch)", "--role-llm"),
          ]}
          range={{ min: 0, max: 1 }}
        />
        <MetricChart title="Entropy" note="nats a token" curves={[curve("train/entropy", "entropy", "--role-llm")]} range={{ min: 0 }} />
        <MetricChart
          title="Steps without a gradient"
          note="no group had mixed rewards"
          curves={[curve("train/zero_gradient", "zero gradient", "--tone-unsolved")]}
          range={{ min: 0, max: 1 }}
        />
        <MetricChart
          title="Tail share"
          note="rollout time after 90 % had finished"
          curves={[curve("rollout/tail_share", "share", "--role-rollout")]}
          range={{ min: 0, max: 1 }}
        />
        <MetricChart title="Turns" note="mean of valid trajectories" curves={[curve("rollout/turns_mean", "turns", "--role-rollout")]} range={{ min: 0 }} />
        <MetricChart title="SFT loss" note="nats, weighted tokens of a batch" curves={[curve("sft/loss", "loss", "--role-trainer")]} range={{ min: 0 }} />
        <EventFeed run={id} limit={5} />
      </div>
    </div>
  );
}

const STEP_PARTS = [
  { key: "update", label: "update", color: "var(--role-trainer)" },
  { key: "logprob", label: "log-prob", color: "color-mix(in srgb, var(--role-trainer) 45%, var(--paper))" },
  { key: "wait", label: "wait", color: "color-mix(in srgb, var(--role-rollout) 70%, var(--paper))" },
];
const PUBLISH = { key: "publish", label: "publish", color: "var(--role-llm)" };

function curveOf(series: MetricSeries[] | undefined, name: string, label: string, color: string): Curve {
  const points = series?.find((one) => one.name === name)?.points ?? [];
  return { label, color, points: points.map(({ resume, step, value }) => ({ resume, step, value: readValue(value) })) };
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

function lastValue(series: MetricSeries[] | undefined, name: string): number | null {
  const last = series?.find((one) => one.name === name)?.points.at(-1);
  return last === undefined ? null : readValue(last.value);
}
