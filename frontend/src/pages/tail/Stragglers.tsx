import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Tail } from "../../api/tail";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { StatusBadge } from "../../components/StatusBadge";
import { ABSENT, formatCount, formatDuration, visibleText } from "../../lib/format";
import { OUTCOME } from "../../lib/status";
import { causeOf, type Straggler, stragglersOf } from "./stragglers";

const MOST = 12;

/** The slowest of what is shown and what each waited for. */
export function Stragglers({ tail, onOpen }: { tail: Tail; onOpen: (trajectory: number) => void }) {
  const rows = useMemo(() => stragglersOf(tail, MOST), [tail]);
  return (
    <DataTable
      label="Stragglers" columns={COLUMNS} rows={rows} rowKey={({ id }) => id} onOpen={({ id }) => onOpen(id)}
      empty={<EmptyState title="Nothing has ended yet">The slowest trajectories are listed once they end.</EmptyState>}
    />
  );
}

const seconds = (row: Straggler, label: string) => row.waits.find((wait) => wait.label === label)?.seconds ?? null;

function wait(id: string, header: string, label: string): Column<Straggler> {
  return { id, header, width: 104, align: "right", cell: (row) => formatDuration(seconds(row, label)), sortValue: (row) => seconds(row, label) };
}

const COLUMNS: Column<Straggler>[] = [
  {
    id: "id", header: "Trajectory", width: 88,
    cell: ({ id }) => (
      <Link to="/trajectories/$trajectory" params={{ trajectory: id }} search={{ tab: "timeline" }}>
        {id}
      </Link>
    ),
  },
  { id: "outcome", header: "Outcome", width: 108, cell: ({ outcome }) => <StatusBadge face={OUTCOME[outcome]} /> },
  { id: "task", header: "Task", width: 180, cell: ({ task }) => <span title={task}>{task}</span> },
  { id: "cause", header: "Waited for", width: 210, cell: (row) => <span title={row.repeat === null ? undefined : visibleText(row.repeat.command)}>{causeOf(row)}</span> },
  { id: "took", header: "Took", unit: "with retries", width: 136, align: "right", cell: (row) => formatDuration(row.seconds), sortValue: (row) => row.seconds },
  { id: "turns", header: "Turns", width: 72, align: "right", cell: (row) => formatCount(row.numTurns), sortValue: (row) => row.numTurns },
  wait("llm", "LLM", "LLM"),
  wait("engine", "Engine queue", "engine queue"),
  wait("shell", "Shell", "shell"),
  wait("tests", "Tests", "tests"),
  wait("start", "Start", "start, setup"),
  wait("queue", "Worker queue", "worker queue"),
  wait("failed", "Failed", "failed attempts"),
  { id: "repeat", header: "Repeated", unit: "times", width: 128, align: "right", cell: ({ repeat }) => (repeat === null ? ABSENT : formatCount(repeat.count)), sortValue: ({ repeat }) => repeat?.count ?? null },
];
