import { MultiSelect, Select } from "@mantine/core";
import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { type FailureFilter, failureGroupsQuery } from "../../api/fleet";
import type { FailureClass, FailureGroup, FailureStage } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Sparkline } from "../../components/Sparkline";
import { StatusBadge } from "../../components/StatusBadge";
import { Time } from "../../components/Time";
import { useDeferredFilter } from "../../components/useDeferredFilter";
import { formatCount, words } from "../../lib/format";
import { FAILURE_STATE } from "../../lib/status";
import { useFleet } from "../../live/useFleet";

const STAGES: FailureStage[] = [
  "admit", "image", "start", "setup", "infer", "exec", "collect", "verify", "teardown", "ingest", "train", "checkpoint", "publish",
];
const CLASSES: FailureClass[] = [
  "capacity", "rate_limit", "start_timeout", "boot_fail", "image_error", "lost", "transport", "oom", "disk_full", "infer_infra",
  "verify_infra", "verify_timeout", "task_defect", "unknown",
];
const DEFAULT_SORT = "-last";

type Change = Pick<FailureFilter, "stage" | "kind" | "state" | "sort">;

/** Failures with one fingerprint are one row; with a run, the groups that it has a failure in. */
export function FailureGroups({ filter, onFilter }: { filter: FailureFilter; onFilter: (change: Change) => void }) {
  const navigate = useNavigate();
  const asked = { ...filter, sort: filter.sort ?? DEFAULT_SORT };
  const groups = useSuspenseInfiniteQuery(failureGroupsQuery(useDeferredFilter(asked)));
  const columns = useMemo(() => columnsOf(filter.run), [filter.run]);
  useFleet();
  const isFiltered = filter.stage !== undefined || filter.kind !== undefined || filter.state !== undefined;
  return (
    <>
      <Filters>
        <MultiSelect
          aria-label="State" size="xs" placeholder={filter.state === undefined ? "Any state" : ""} clearable
          data={Object.entries(FAILURE_STATE).map(([value, face]) => ({ value, label: face.label }))}
          value={filter.state?.split(",") ?? []}
          onChange={(states) => onFilter({ state: states.length === 0 ? undefined : states.join(",") })}
        />
        <Select
          aria-label="Stage" placeholder="Any stage" clearable data={STAGES} value={filter.stage ?? null}
          onChange={(stage) => onFilter({ stage: stage ?? undefined })}
        />
        <Select
          aria-label="Class" placeholder="Any class" clearable searchable data={CLASSES.map((value) => ({ value, label: words(value) }))}
          value={filter.kind ?? null}
          onChange={(kind) => onFilter({ kind: kind ?? undefined })}
        />
        <CopyAs
          path="/api/v1/failures" query={asked}
          cli={filter.run === undefined ? "longtail failures top" : `longtail failures top --run ${filter.run}`}
        />
      </Filters>
      <DataTable
        label="Failure groups"
        columns={columns}
        rows={groups.data.pages.flatMap((page) => page.results)}
        rowKey={(group) => group.id}
        onOpen={(group) => {
          navigate({ to: "/failures/$group", params: { group: group.id }, search: runSearch(filter.run) }).catch(() => undefined);
        }}
        sort={asked.sort}
        onSort={(sort) => onFilter({ sort })}
        hasMore={groups.hasNextPage}
        isLoadingMore={groups.isFetchingNextPage}
        onMore={() => {
          groups.fetchNextPage().catch(() => undefined);
        }}
        empty={
          isFiltered ? (
            <EmptyState title="No failure group is so">
              <button type="button" onClick={() => onFilter({ stage: undefined, kind: undefined, state: undefined })}>
                Clear the filters
              </button>
            </EmptyState>
          ) : (
            <EmptyState title="No infrastructure failures">Every attempt so far ended as the policy made it end.</EmptyState>
          )
        }
      />
    </>
  );
}

function runSearch(run: number | undefined): { run?: number } {
  return run === undefined ? {} : { run };
}

function columnsOf(run: number | undefined): Column<FailureGroup>[] {
  const where = run === undefined ? "all runs" : "this run";
  return [
    {
      id: "kind", header: "Failure", width: 180,
      cell: (group) => (
        <Link to="/failures/$group" params={{ group: group.id }} search={runSearch(run)}>
          {group.stage}: {words(group.kind)}
        </Link>
      ),
    },
    { id: "state", header: "State", width: 112, cell: (group) => <StatusBadge face={FAILURE_STATE[group.state]} /> },
    { id: "message", header: "Message", width: 230, cell: (group) => <code title={group.fingerprint}>{group.message}</code> },
    {
      id: "hourly", header: "By hour", width: 108, meaning: "Failures an hour over the 48 hours up to its last one.",
      cell: (group) => <Sparkline values={group.hourly} label="failures an hour, 48 h up to the last" color="--tone-failed" />,
    },
    { id: "count", header: "Failures", unit: where, width: 120, align: "right", ...(run === undefined ? { sortKey: "failures" } : {}), cell: (group) => formatCount(group.num_here) },
    {
      id: "trajectories", header: "Touched", unit: "trajectories", width: 150, align: "right", cell: (group) => formatCount(group.num_trajectories),
    },
    {
      id: "invalidated", header: "No reward", width: 92, align: "right", meaning: "Trajectories among those touched that ended without a reward.",
      cell: (group) => formatCount(group.num_invalidated),
    },
    ...(run === undefined ? [{ id: "runs", header: "Runs", width: 64, align: "right" as const, cell: (group: FailureGroup) => formatCount(group.num_runs) }] : []),
    { id: "first", header: "First", width: 108, align: "right", sortKey: "first", cell: (group) => <Time at={group.first_at} /> },
    { id: "last", header: "Last", width: 108, align: "right", sortKey: "last", cell: (group) => <Time at={group.last_at} /> },
  ];
}
