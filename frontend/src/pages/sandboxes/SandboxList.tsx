import { Checkbox, Select } from "@mantine/core";
import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";

import { type SandboxFilter, sandboxesQuery } from "../../api/fleet";
import type { Sandbox } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { useDeferredFilter } from "../../components/useDeferredFilter";
import { ABSENT, formatDuration } from "../../lib/format";
import { SANDBOX_STATUS } from "../../lib/status";
import classes from "./Sandboxes.module.css";

type Change = Pick<SandboxFilter, "status" | "driver" | "is_orphan" | "sort" | "run">;

/** Sandboxes of a run or of the project, with the seconds of each stage of their life. */
export function SandboxList({ filter, drivers, onFilter }: { filter: SandboxFilter; drivers: readonly string[]; onFilter: (change: Change) => void }) {
  const navigate = useNavigate();
  const sandboxes = useSuspenseInfiniteQuery(sandboxesQuery(useDeferredFilter(filter)));
  const isFiltered = filter.status !== undefined || filter.driver !== undefined || filter.is_orphan !== undefined;
  return (
    <section className={classes.section} aria-labelledby="sandbox-list">
      <h2 id="sandbox-list">List</h2>
      <Filters>
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
          data={Object.entries(SANDBOX_STATUS).map(([value, face]) => ({ value, label: face.label }))}
          value={filter.status ?? null}
          onChange={(status) => onFilter({ status: status ?? undefined })}
        />
        <Select
          aria-label="Driver" placeholder="Any driver" clearable data={[...drivers]} value={filter.driver ?? null}
          onChange={(driver) => onFilter({ driver: driver ?? undefined })}
        />
        <Checkbox
          label="Orphans only"
          checked={filter.is_orphan ?? false}
          onChange={(event) => onFilter({ is_orphan: event.currentTarget.checked ? true : undefined })}
        />
        <CopyAs path="/api/v1/sandboxes" query={filter} />
      </Filters>
      <DataTable
        label="Sandboxes"
        columns={filter.run === undefined ? [...COLUMNS.slice(0, 3), RUN, ...COLUMNS.slice(3)] : COLUMNS}
        rows={sandboxes.data.pages.flatMap((page) => page.results)}
        rowKey={(sandbox) => sandbox.id}
        onOpen={(sandbox) => {
          navigate({ to: "/sandboxes/$sandbox", params: { sandbox: sandbox.id } }).catch(() => undefined);
        }}
        sort={filter.sort}
        onSort={(sort) => onFilter({ sort })}
        live={JSON.stringify(filter)}
        hasMore={sandboxes.hasNextPage}
        isLoadingMore={sandboxes.isFetchingNextPage}
        onMore={() => {
          sandboxes.fetchNextPage().catch(() => undefined);
        }}
        empty={
          isFiltered ? (
            <EmptyState title="No sandbox is so">
              <button type="button" onClick={() => onFilter({ status: undefined, driver: undefined, is_orphan: undefined })}>
                Clear the filters
              </button>
            </EmptyState>
          ) : (
            <EmptyState title="No sandboxes yet" command="longtail runs launch recipes/miniature.yaml">
              One is started for each attempt of a trajectory. Launch a run:
            </EmptyState>
          )
        }
      />
    </section>
  );
}

const seconds = (id: string, header: string, sortKey?: string): Column<Sandbox> => ({
  id, header, width: 84, align: "right", cell: (sandbox) => formatDuration(sandbox.timings[id]), ...(sortKey === undefined ? {} : { sortKey }),
});

const RUN: Column<Sandbox> = {
  id: "run", header: "Run", width: 60, align: "right", sortKey: "run",
  cell: ({ run_id: run }) =>
    run === null ? (
      ABSENT
    ) : (
      <Link to="/runs/$run/sandboxes" params={{ run }}>
        {run}
      </Link>
    ),
};

const COLUMNS: Column<Sandbox>[] = [
  {
    id: "key", header: "Sandbox", width: 150,
    cell: (sandbox) => (
      <Link to="/sandboxes/$sandbox" params={{ sandbox: sandbox.id }}>
        <code title={sandbox.key}>{sandbox.key}</code>
      </Link>
    ),
  },
  {
    id: "status", header: "State", width: 150,
    cell: (sandbox) => (
      <>
        <StatusBadge face={SANDBOX_STATUS[sandbox.status]} />
        {sandbox.is_orphan && (
          <span className={classes.orphan} title="Alive, and no attempt in flight has it.">
            {" "}
            orphan
          </span>
        )}
      </>
    ),
  },
  { id: "driver", header: "Driver", width: 150, cell: (sandbox) => `${sandbox.driver}${sandbox.level ? ` · ${sandbox.level}` : ""}` },
  {
    id: "trajectory", header: "Trajectory", width: 92, align: "right",
    cell: (sandbox) =>
      sandbox.trajectory_id === null ? (
        ABSENT
      ) : (
        <Link to="/trajectories/$trajectory" params={{ trajectory: sandbox.trajectory_id }}>
          {sandbox.trajectory_id}
        </Link>
      ),
  },
  { id: "worker", header: "Worker", width: 110, cell: (sandbox) => sandbox.worker || ABSENT },
  seconds("image", "Image"),
  seconds("start", "Start", "start"),
  seconds("setup", "Set-up"),
  seconds("exec", "Exec"),
  seconds("verify", "Verify"),
  seconds("teardown", "Teardown"),
  { id: "created", header: "Created", width: 120, align: "right", sortKey: "created", cell: (sandbox) => <Time at={sandbox.created_at} /> },
  { id: "lived", header: "Lived", width: 90, align: "right", sortKey: "lived", cell: (sandbox) => <Elapsed from={sandbox.created_at} to={sandbox.finished_at} /> },
];
