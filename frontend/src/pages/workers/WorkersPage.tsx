import { useSuspenseQuery } from "@tanstack/react-query";

import { workersQuery } from "../../api/fleet";
import type { Worker } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { Ago, Time } from "../../components/Time";
import { formatCount } from "../../lib/format";
import { WORKER_STATUS } from "../../lib/status";
import { useFleet } from "../../live/useFleet";

export function WorkersPage() {
  const { data } = useSuspenseQuery(workersQuery());
  useFleet();
  return (
    <Page title="Workers">
      <DataTable
        label="Workers"
        columns={COLUMNS}
        rows={data}
        rowKey={(worker) => worker.id}
        empty={
          <EmptyState title="No workers" command="python manage.py up">
            Nothing can run until one registers. The whole stack on this machine:
          </EmptyState>
        }
      />
    </Page>
  );
}

const COLUMNS: Column<Worker>[] = [
  { id: "name", header: "Worker", width: 240, cell: (worker) => <code>{worker.name}</code>, sortValue: (worker) => worker.name },
  { id: "kind", header: "Kind", width: 90, cell: (worker) => worker.kind, sortValue: (worker) => worker.kind },
  { id: "status", header: "State", width: 120, cell: (worker) => <StatusBadge face={WORKER_STATUS[worker.status]} />, sortValue: (worker) => worker.status },
  { id: "node", header: "Node", width: 160, cell: (worker) => worker.node, sortValue: (worker) => worker.node },
  {
    id: "slots", header: "Busy", unit: "of slots", width: 120, align: "right", sortValue: (worker) => worker.num_busy,
    cell: (worker) => `${formatCount(worker.num_busy)} / ${formatCount(worker.num_slots)}`,
  },
  { id: "pid", header: "PID", width: 90, align: "right", cell: (worker) => worker.pid },
  { id: "seen", header: "Heartbeat", width: 120, align: "right", cell: (worker) => <Ago at={worker.last_seen_at} />, sortValue: (worker) => worker.last_seen_at },
  { id: "started", header: "Started", width: 130, align: "right", cell: (worker) => <Time at={worker.started_at} />, sortValue: (worker) => worker.started_at },
];
