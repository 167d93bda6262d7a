import { Select } from "@mantine/core";
import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { type SandboxFilter, sandboxesQuery } from "../../api/fleet";
import type { Sandbox } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatDuration } from "../../lib/format";
import { SANDBOX_STATUS } from "../../lib/status";
import { useFleet } from "../../live/useFleet";

/** Sandboxes of a run or of the project, newest first, with the seconds of each stage of their life. */
export function SandboxList({ filter, onFilter }: { filter: SandboxFilter; onFilter: (status: string | undefined) => void }) {
  const sandboxes = useSuspenseInfiniteQuery(sandboxesQuery(filter));
  useFleet();
  return (
    <>
      <Filters>
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
         
          data={Object.entries(SANDBOX_STATUS).map(([value, face]) => ({ value, label: face.label }))}
          value={filter.status ?? null}
          onChange={(status) => onFilter(status ?? undefined)}
        />
      </Filters>
      <DataTable
        label="Sandboxes"
        columns={COLUMNS}
        rows={sandboxes.data.pages.flatMap((page) => page.results)}
        rowKey={(sandbox) => sandbox.id}
        hasMore={sandboxes.hasNextPage}
        isLoadingMore={sandboxes.isFetchingNextPage}
        onMore={() => {
          sandboxes.fetchNextPage().catch(() => undefined);
        }}
        empty={
          filter.status === undefined ? (
            <EmptyState title="No sandboxes yet">One is started for each attempt of a trajectory.</EmptyState>
          ) : (
            <EmptyState title={`No sandbox is ${filter.status}`} />
          )
        }
      />
    </>
  );
}

const seconds = (id: string, header: string): Column<Sandbox> => ({
  id, header, width: 84, align: "right", cell: (sandbox) => formatDuration(sandbox.timings[id]),
});

const COLUMNS: Column<Sandbox>[] = [
  { id: "key", header: "Sandbox", width: 170, cell: (sandbox) => <code title={sandbox.key}>{sandbox.key}</code> },
  { id: "status", header: "State", width: 120, cell: (sandbox) => <StatusBadge face={SANDBOX_STATUS[sandbox.status]} /> },
  { id: "driver", header: "Driver", width: 130, cell: (sandbox) => `${sandbox.driver}${sandbox.level ? ` · ${sandbox.level}` : ""}` },
  {
    id: "trajectory", header: "Trajectory", width: 100, align: "right",
    cell: (sandbox) =>
      sandbox.trajectory_id === null ? (
        ABSENT
      ) : (
        <Link to="/trajectories/$trajectory" params={{ trajectory: sandbox.trajectory_id }}>
          {sandbox.trajectory_id}
        </Link>
      ),
  },
  { id: "worker", header: "Worker", width: 150, cell: (sandbox) => sandbox.worker || ABSENT },
  seconds("admit", "Admit"),
  seconds("start", "Start"),
  seconds("setup", "Set-up"),
  seconds("exec", "Exec"),
  seconds("verify", "Verify"),
  seconds("teardown", "Teardown"),
  { id: "created", header: "Created", width: 110, align: "right", cell: (sandbox) => <Time at={sandbox.created_at} /> },
  { id: "lived", header: "Lived", width: 90, align: "right", cell: (sandbox) => <Elapsed from={sandbox.created_at} to={sandbox.finished_at} /> },
];
