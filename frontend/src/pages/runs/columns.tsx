import { Link } from "@tanstack/react-router";

import type { Run } from "../../api/types";
import type { Column } from "../../components/DataTable";
import { Sparkline } from "../../components/Sparkline";
import { StatusBadge } from "../../components/StatusBadge";
import { Ago, Elapsed, Time } from "../../components/Time";
import { ABSENT, formatCount, formatDuration, formatNumber, formatShare } from "../../lib/format";
import { currentStage, latestResult, stageProgress } from "../../lib/progress";
import { RUN_STATUS } from "../../lib/status";
import { DemoLabel } from "./DemoLabel";
import classes from "./RunsPage.module.css";

export const COLUMNS: Column<Run>[] = [
  {
    id: "name", header: "Run", width: 172, sortKey: "name",
    cell: (run) => (
      <span className={classes.name}>
        <Link to="/runs/$run/overview" params={{ run: run.id }}>
          {run.name}
        </Link>
        {run.is_demo && <DemoLabel />}
      </span>
    ),
  },
  { id: "status", header: "State", width: 114, sortKey: "status", cell: (run) => <StatusBadge face={RUN_STATUS[run.status]} /> },
  { id: "waits", header: "Waits for", width: 112, cell: (run) => <span title={sentenceOf(run)}>{sentenceOf(run) || ABSENT}</span> },
  {
    id: "stage", header: "Stage", width: 132, isExtra: true,
    cell: (run) => {
      const stage = currentStage(run.stages);
      return stage === undefined ? ABSENT : `${stage.name} ${stageProgress(stage)}`;
    },
  },
  {
    id: "reward", header: "Reward", unit: "10 steps", width: 124,
    meaning: "Mean reward of the valid trajectories of ten steps; steps that were superseded are left out",
    cell: (run) => (
      <span className={classes.curve}>
        <Sparkline values={run.reward_mean_10} label={`Reward of ${run.name}, 10-step mean`} width={64} />
        {run.reward_mean_10.length > 0 && formatNumber(run.reward_mean_10.at(-1))}
      </span>
    ),
  },
  {
    id: "solve_rate", header: "Solve rate", width: 104, align: "right",
    meaning: "pass@1 of the newest evaluation; invalid attempts count as unsolved",
    cell: (run) => {
      const stage = latestResult(run.stages);
      return stage === undefined ? ABSENT : `${stage.name} ${formatShare(stage.pass_at_1)}`;
    },
  },
  {
    id: "rate", header: "Produced", unit: "per h", width: 108, align: "right", cell: (run) => formatNumber(rounded(run.produced_per_h)),
    meaning: "Completed trajectories per hour: over the last ten minutes, or over the whole of a run that has ended",
  },
  {
    id: "infra", header: "Infra failures", width: 124, align: "right",
    meaning: "Attempts that the infrastructure lost, of those that completed or were lost. They have no reward",
    cell: (run) => (run.attempts_ended === 0 ? ABSENT : `${formatShare(run.infra_failures / run.attempts_ended)} of ${formatCount(run.attempts_ended)}`),
  },
  { id: "in_flight", header: "In flight", unit: "/ limit", width: 104, align: "right", cell: (run) => `${formatCount(run.in_flight)} / ${formatCount(run.max_in_flight)}` },
  {
    id: "staleness", header: "Staleness", width: 80, align: "right", cell: (run) => formatNumber(run.staleness),
    meaning: "Of the newest step: weight versions between the trainer and the oldest token, token-weighted mean",
  },
  { id: "resume", header: "Resumes", width: 80, align: "right", sortKey: "resume", cell: (run) => formatCount(run.resume), meaning: "Lives of the trainer after the first" },
  {
    id: "alerts", header: "Errors", unit: "24 h", width: 84, align: "right",
    meaning: "Error lines of the event feed in the last 24 hours",
    cell: (run) =>
      run.errors_24h === 0 ? "0" : (
        <Link className={classes.errors} to="/runs/$run/events" params={{ run: run.id }}>
          {formatCount(run.errors_24h)}
        </Link>
      ),
  },
  { id: "engines", header: "Engines", unit: "up", width: 88, align: "right", cell: (run) => formatCount(run.engines_up), isExtra: true },
  {
    id: "heartbeat", header: "Heartbeat", width: 104, align: "right", cell: (run) => <Ago at={run.last_heartbeat_at} />, isExtra: true,
    meaning: "The newest sign of life of a worker that holds an engine or the trainer of the run",
  },
  { id: "version", header: "Weights", width: 80, align: "right", sortKey: "weight_version", cell: (run) => `v${run.weight_version}`, isExtra: true },
  { id: "recipe", header: "Recipe", width: 110, sortKey: "recipe", cell: (run) => run.recipe, isExtra: true },
  { id: "project", header: "Project", width: 100, sortKey: "project", cell: (run) => run.project, isExtra: true },
  { id: "seed", header: "Seed", width: 64, align: "right", sortKey: "seed", cell: (run) => run.seed, isExtra: true },
  { id: "by", header: "By", width: 80, sortKey: "created_by", cell: (run) => run.created_by ?? ABSENT, isExtra: true },
  { id: "started", header: "Started", width: 116, align: "right", sortKey: "started_at", cell: (run) => <Time at={run.started_at} />, isExtra: true },
  { id: "elapsed", header: "Took", width: 88, align: "right", sortKey: "duration_s", cell: (run) => <Elapsed from={run.started_at} to={run.finished_at} />, isExtra: true },
  { id: "cpu", header: "CPU", width: 88, align: "right", sortKey: "cpu_s", cell: (run) => formatDuration(run.cpu_s), isExtra: true },
];

function sentenceOf(run: Run): string {
  return run.wait_sentence || run.stop_reason;
}

function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value);
}
