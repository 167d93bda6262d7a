import { Link } from "@tanstack/react-router";

import type { Trajectory } from "../../api/types";
import type { Column } from "../../components/DataTable";
import { Reward } from "../../components/Reward";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatCount, formatDuration, formatNumber, formatShare, visibleText, words } from "../../lib/format";
import { partsOf } from "../../lib/parts";
import { OUTCOME, outcomeOf } from "../../lib/status";
import { versions } from "../../lib/turns";
import type { TrajectoriesSearch } from "./search";
import classes from "./TrajectoriesTab.module.css";

/** In the order in which they are shown. What is not of the default set is in the menu. */
export function columnsOf(search: TrajectoriesSearch): Column<Trajectory>[] {
  return [
    {
      id: "id", header: "Trajectory", width: 88, sortKey: "id",
      cell: ({ id }) => (
        <Link to="/trajectories/$trajectory" params={{ trajectory: id }} search={search}>
          {id}
        </Link>
      ),
    },
    { id: "outcome", header: "Outcome", width: 108, sortKey: "outcome", cell: (row) => <StatusBadge face={OUTCOME[outcomeOf(row)]} /> },
    { id: "reward", header: "Reward", width: 76, align: "right", sortKey: "reward", cell: (row) => <Reward trajectory={row} /> },
    { id: "task", header: "Task", width: 186, sortKey: "task", cell: (row) => <span title={row.task.key}>{row.task.key}</span> },
    { id: "repository", header: "Repository", width: 120, sortKey: "repository", isExtra: true, cell: (row) => row.task.repository },
    { id: "stage", header: "Stage", width: 96, sortKey: "stage", cell: (row) => row.stage },
    {
      id: "group", header: "Group", width: 72, align: "right", sortKey: "group", isExtra: true,
      cell: (row) => (
        <Link to="/runs/$run/groups/$group" params={{ run: row.run, group: row.group }}>
          {row.group}
        </Link>
      ),
    },
    { id: "index", header: "Index", width: 64, align: "right", sortKey: "index", isExtra: true, cell: (row) => row.index },
    {
      id: "stop", header: "Stopped by", width: 132, sortKey: "stop_reason",
      cell: (row) =>
        row.failure === null ? (
          row.status === "open" ? (row.attempt_status ?? "") : words(row.stop_reason)
        ) : (
          <span title={visibleText(row.failure.message)}>{`${row.failure.stage}: ${words(row.failure.kind)}`}</span>
        ),
    },
    { id: "turns", header: "Turns", width: 68, align: "right", sortKey: "turns", cell: (row) => formatCount(row.num_turns) },
    { id: "tokens", header: "Tokens", unit: "out", width: 96, align: "right", sortKey: "tokens", cell: (row) => formatCount(row.output_tokens) },
    { id: "prompt_tokens", header: "Tokens", unit: "in", width: 96, align: "right", sortKey: "prompt_tokens", isExtra: true, cell: (row) => formatCount(row.prompt_tokens) },
    {
      id: "duration", header: "Took", width: 88, align: "right", sortKey: "duration", meaning: "The newest attempt, from its lease to its end; of one in flight its age.",
      cell: (row) => <Took row={row} />,
    },
    { id: "parts", header: "Time", unit: "by part", width: 108, meaning: "Share of the attempt by start and setup, LLM, shell, tests, teardown.", cell: (row) => <Parts row={row} /> },
    { id: "llm_share", header: "LLM", unit: "share", width: 92, align: "right", sortKey: "llm_share", isExtra: true, cell: (row) => formatShare(row.llm_share) },
    { id: "start", header: "Start", unit: "s", width: 76, align: "right", sortKey: "start", isExtra: true, cell: (row) => formatNumber(row.timings.start) },
    { id: "queue", header: "Queue", unit: "s", width: 80, align: "right", sortKey: "queue", isExtra: true, meaning: "From asked for to leased by a worker.", cell: (row) => formatNumber(row.queue_s) },
    { id: "advantage", header: "Advantage", width: 96, align: "right", sortKey: "advantage", isExtra: true, cell: (row) => formatNumber(row.advantage) },
    { id: "attempts", header: "Attempts", width: 88, align: "right", sortKey: "attempts", isExtra: true, cell: (row) => row.num_attempts },
    { id: "versions", header: "Weights", width: 96, align: "right", sortKey: "version", isExtra: true, cell: (row) => versions(row) },
    { id: "staleness", header: "Staleness", unit: "versions", width: 136, align: "right", sortKey: "staleness", isExtra: true, meaning: "From its oldest token to the trainer, where it was trained.", cell: (row) => formatCount(row.staleness) },
    { id: "step", header: "Step", width: 64, align: "right", sortKey: "step", meaning: "That consumed its group.", cell: (row) => formatCount(row.step_index) },
    { id: "driver", header: "Driver", width: 88, sortKey: "driver", isExtra: true, cell: (row) => row.driver ?? ABSENT },
    { id: "engine", header: "Engine", width: 72, align: "right", sortKey: "engine", isExtra: true, cell: (row) => row.engine ?? ABSENT },
    {
      id: "failure", header: "Failure", width: 220, sortKey: "failure", isExtra: true,
      cell: (row) =>
        row.failure_group === null ? ABSENT : (
          <Link to="/failures/$group" params={{ group: row.failure_group }} title={visibleText(row.fingerprint ?? "")}>
            {visibleText(row.fingerprint ?? "")}
          </Link>
        ),
    },
    { id: "started", header: "Started", width: 112, align: "right", sortKey: "started", isExtra: true, cell: (row) => <Time at={row.started_at} /> },
    { id: "finished", header: "Finished", width: 96, align: "right", sortKey: "finished", cell: (row) => <Time at={row.finished_at} /> },
  ];
}

function Took({ row }: { row: Trajectory }) {
  if (row.status === "open") {
    return (
      <span className={classes.live} title={row.started_at === null ? "Waits for a worker since" : "In flight since"}>
        <Elapsed from={row.started_at ?? row.created_at} to={null} />
      </span>
    );
  }
  return <>{formatDuration(row.duration_s)}</>;
}

const BAR_PX = 84;

function Parts({ row }: { row: Trajectory }) {
  const parts = partsOf(row.timings);
  const total = parts.reduce((sum, part) => sum + part.seconds, 0);
  if (total === 0) return <>{ABSENT}</>;
  const text = parts.map((part) => `${part.label} ${formatDuration(part.seconds)}`).join(", ");
  const starts = parts.map((_, index) => parts.slice(0, index).reduce((sum, part) => sum + part.seconds, 0));
  return (
    <svg width={BAR_PX} height="12" role="img" aria-label={text} className={classes.parts}>
      <title>{text}</title>
      {parts.map((part, index) => (
        <rect key={part.label} x={((starts[index] ?? 0) / total) * BAR_PX} width={(part.seconds / total) * BAR_PX} height="12" fill={`var(${part.color})`} />
      ))}
    </svg>
  );
}
