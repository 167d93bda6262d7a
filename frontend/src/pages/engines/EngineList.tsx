import { useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { enginesQuery } from "../../api/fleet";
import type { Engine } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { StatusBadge } from "../../components/StatusBadge";
import { Ago } from "../../components/Time";
import { ABSENT, formatCount, formatNumber, formatShare } from "../../lib/format";
import { ENGINE_STATUS } from "../../lib/status";
import { useFleet } from "../../live/useFleet";

/** Inference servers of a run or of all runs. */
export function EngineList({ run }: { run?: number }) {
  const { data } = useSuspenseQuery(enginesQuery(run === undefined ? {} : { run }));
  useFleet();
  return (
    <DataTable
      label="Engines"
      columns={COLUMNS}
      rows={data}
      rowKey={(engine) => engine.id}
      empty={<EmptyState title="No engines">A run starts its own when it begins, on the live engine workers.</EmptyState>}
    />
  );
}

const COLUMNS: Column<Engine>[] = [
  { id: "index", header: "Engine", width: 80, cell: (engine) => engine.index, sortValue: (engine) => engine.index },
  { id: "status", header: "State", width: 120, cell: (engine) => <StatusBadge face={ENGINE_STATUS[engine.status]} />, sortValue: (engine) => engine.status },
  {
    id: "run", header: "Run", width: 70, align: "right", sortValue: (engine) => engine.run,
    cell: (engine) => (
      <Link to="/runs/$run/overview" params={{ run: engine.run }}>
        {engine.run}
      </Link>
    ),
  },
  {
    id: "version", header: "Weights", unit: "of target", width: 130, align: "right", sortValue: (engine) => engine.weight_version,
    cell: ({ weight_version: held, target_version: target }) => (held === null ? ABSENT : `v${held} / v${target}`),
  },
  { id: "in_flight", header: "In flight", width: 90, align: "right", cell: (engine) => formatCount(engine.num_in_flight), sortValue: (engine) => engine.num_in_flight },
  { id: "running", header: "Running", width: 90, align: "right", cell: (engine) => formatCount(engine.load.running), sortValue: (engine) => engine.load.running ?? null },
  { id: "queued", header: "Queued", width: 90, align: "right", cell: (engine) => formatCount(engine.load.queued), sortValue: (engine) => engine.load.queued ?? null },
  { id: "kv", header: "KV cache", unit: "used", width: 120, align: "right", cell: (engine) => formatShare(engine.load.token_usage), sortValue: (engine) => engine.load.token_usage ?? null },
  { id: "rate", header: "Generated", unit: "tokens/s", width: 140, align: "right", cell: (engine) => formatNumber(engine.load.gen_throughput), sortValue: (engine) => engine.load.gen_throughput ?? null },
  { id: "synced", header: "Synced", width: 120, align: "right", cell: (engine) => <Ago at={engine.synced_at} /> },
  { id: "url", header: "Address", width: 190, cell: (engine) => <code>{engine.url || ABSENT}</code> },
  { id: "failure", header: "Last failure", width: 220, cell: (engine) => <span title={engine.failure_message}>{engine.failure_message || ABSENT}</span> },
];
