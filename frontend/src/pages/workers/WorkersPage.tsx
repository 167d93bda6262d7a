import { useSuspenseQuery } from "@tanstack/react-query";

import { nodesQuery, queuesQuery, useWorkerCommand, workersQuery } from "../../api/fleet";
import { useProject, whyNotAct } from "../../api/me";
import type { Node, Queue, Role, Worker } from "../../api/types";
import { CommandButton } from "../../components/CommandButton";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { Ago, Time } from "../../components/Time";
import { ABSENT, formatBytes, formatCount } from "../../lib/format";
import { WORKER_STATUS } from "../../lib/status";
import { useFleet } from "../../live/useFleet";
import { capabilitiesOf } from "./capabilities";
import classes from "./WorkersPage.module.css";

/** What waits and for whom, who works, on which machines. */
export function WorkersPage() {
  const { role } = useProject();
  const { data: queues } = useSuspenseQuery(queuesQuery());
  const { data: workers } = useSuspenseQuery(workersQuery());
  const { data: nodes } = useSuspenseQuery(nodesQuery());
  useFleet();
  return (
    <Page title="Workers" actions={<CopyAs path="/api/v1/workers" />}>
      <div className={classes.page}>
        <section aria-labelledby="queues">
          <h2 id="queues">Queues</h2>
          <DataTable label="Queues" columns={QUEUES} rows={queues} rowKey={(queue) => queue.name} empty={null} />
          <p className={classes.note}>
            Waiting is counted from the rows of your projects; messages are what the broker holds. Consumers and slots are those of live
            workers; a draining one is not among them.
          </p>
        </section>
        <section aria-labelledby="workers">
          <h2 id="workers">Workers</h2>
          <DataTable
            label="Workers"
            columns={workerColumns(role)}
            rows={[...workers].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status))}
            rowKey={(worker) => worker.id}
            empty={
              <EmptyState title="No workers" command="python manage.py up">
                Nothing can run until one registers. The whole stack on this machine:
              </EmptyState>
            }
          />
        </section>
        <section aria-labelledby="nodes">
          <h2 id="nodes">Nodes</h2>
          <DataTable label="Nodes" columns={NODES} rows={nodes} rowKey={(node) => node.id} empty={<p className={classes.note}>No machine has registered a worker yet.</p>} />
        </section>
      </div>
    </Page>
  );
}

/** Who may get work comes first. */
const ORDER: Worker["status"][] = ["live", "draining", "lost", "gone"];

const QUEUES: Column<Queue>[] = [
  { id: "name", header: "Queue", width: 96, cell: (queue) => queue.name },
  { id: "waits", header: "Waits for", width: 260, cell: (queue) => queue.waits_for },
  { id: "depth", header: "Waiting", width: 90, align: "right", cell: (queue) => formatCount(queue.depth) },
  { id: "oldest", header: "Oldest", width: 110, align: "right", cell: (queue) => <Ago at={queue.oldest_at} /> },
  { id: "messages", header: "Messages", width: 100, align: "right", meaning: "In the broker, not taken yet.", cell: (queue) => formatCount(queue.num_messages) },
  { id: "consumers", header: "Consumers", width: 100, align: "right", cell: (queue) => formatCount(queue.num_consumers) },
  {
    id: "slots", header: "Busy", unit: "of slots", width: 120, align: "right",
    cell: (queue) => (queue.num_slots === null ? ABSENT : `${formatCount(queue.num_busy)} / ${formatCount(queue.num_slots)}`),
  },
];

function WorkerActions({ worker, role }: { worker: Worker; role: Role }) {
  const command = useWorkerCommand(worker.id);
  if (worker.status === "live") {
    return (
      <CommandButton
        label="Drain" title={`Drain ${worker.name}`} whyNot={whyNotAct(role)}
        consequence="What it has in flight finishes; it gets nothing more. Once it is empty, its process may be stopped without a retry."
        send={(reason) => command.mutateAsync({ command: "drain", reason })}
      />
    );
  }
  if (worker.status !== "draining") return null;
  return (
    <CommandButton
      label="Undrain" title={`Let ${worker.name} work again`} whyNot={whyNotAct(role)} consequence="It takes work again with its next heartbeat."
      send={(reason) => command.mutateAsync({ command: "undrain", reason })}
    />
  );
}

function drainDetail(worker: Worker): string {
  return worker.num_busy === 0 ? "empty" : `${formatCount(worker.num_busy)} left`;
}

function workerColumns(role: Role): Column<Worker>[] {
  return [
    { id: "name", header: "Worker", width: 130, cell: (worker) => <code>{worker.name}</code>, sortValue: (worker) => worker.name },
    { id: "kind", header: "Kind", width: 76, cell: (worker) => worker.kind, sortValue: (worker) => worker.kind },
    {
      id: "status", header: "State", width: 160, sortValue: (worker) => worker.status,
      cell: (worker) => (
        <span title={worker.drained_by === "" ? undefined : `${worker.drained_by}: ${worker.drain_reason}`}>
          <StatusBadge face={WORKER_STATUS[worker.status]} {...(worker.status === "draining" ? { detail: drainDetail(worker) } : {})} />
        </span>
      ),
    },
    {
      id: "slots", header: "Busy", unit: "of slots", width: 110, align: "right", sortValue: (worker) => worker.num_busy,
      cell: (worker) => `${formatCount(worker.num_busy)} / ${formatCount(worker.num_slots)}`,
    },
    { id: "seen", header: "Heartbeat", width: 104, align: "right", cell: (worker) => <Ago at={worker.last_seen_at} />, sortValue: (worker) => worker.last_seen_at },
    {
      id: "isolation", header: "Sandbox", width: 250, meaning: "What the probe of its sandbox driver found on this machine.",
      cell: (worker) => {
        const found = capabilitiesOf(worker.capabilities);
        if (found === null) return ABSENT;
        return (
          <span title={[...found.missing, found.has].join("\n")} data-tone={found.isTrusted ? undefined : "failed"} className={classes.isolation}>
            {found.summary}
          </span>
        );
      },
    },
    { id: "node", header: "Node", width: 120, cell: (worker) => worker.node, sortValue: (worker) => worker.node },
    { id: "pid", header: "PID", width: 80, align: "right", cell: (worker) => worker.pid },
    { id: "started", header: "Started", width: 116, align: "right", cell: (worker) => <Time at={worker.started_at} />, sortValue: (worker) => worker.started_at },
    { id: "reason", header: "Drained because", width: 180, isExtra: true, cell: (worker) => worker.drain_reason || ABSENT },
    { id: "actions", header: "Actions", width: 96, cell: (worker) => <WorkerActions worker={worker} role={role} /> },
  ];
}

const NODES: Column<Node>[] = [
  { id: "host", header: "Node", width: 180, cell: (node) => node.hostname, sortValue: (node) => node.hostname },
  { id: "cpus", header: "CPUs", width: 70, align: "right", cell: (node) => formatCount(node.num_cpus), sortValue: (node) => node.num_cpus },
  { id: "memory", header: "Memory", width: 100, align: "right", cell: (node) => formatBytes(node.memory_bytes), sortValue: (node) => node.memory_bytes },
  { id: "workers", header: "Live workers", width: 110, align: "right", cell: (node) => formatCount(node.num_workers), sortValue: (node) => node.num_workers },
  { id: "slots", header: "Slots", width: 80, align: "right", cell: (node) => formatCount(node.num_slots), sortValue: (node) => node.num_slots },
  { id: "seen", header: "Heartbeat", width: 104, align: "right", cell: (node) => <Ago at={node.last_seen_at} /> },
  { id: "first", header: "First seen", width: 116, align: "right", cell: (node) => <Time at={node.first_seen_at} /> },
];
