import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { type FailureFilter, failuresQuery } from "../../api/fleet";
import type { Failure } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Time } from "../../components/Time";
import { ABSENT, words } from "../../lib/format";
import { useFleet } from "../../live/useFleet";

/** Every failure of a run, newest first. */
export function FailureList({ filter }: { filter: FailureFilter }) {
  const failures = useSuspenseInfiniteQuery(failuresQuery(filter));
  useFleet();
  return (
    <DataTable
      label="Failures"
      columns={COLUMNS}
      rows={failures.data.pages.flatMap((page) => page.results)}
      rowKey={(failure) => failure.id}
      hasMore={failures.hasNextPage}
      isLoadingMore={failures.isFetchingNextPage}
      onMore={() => {
        failures.fetchNextPage().catch(() => undefined);
      }}
      empty={<EmptyState title="No infrastructure failures">Every attempt of this run so far ended as the policy made it end.</EmptyState>}
    />
  );
}

const COLUMNS: Column<Failure>[] = [
  { id: "at", header: "When", width: 110, cell: (failure) => <Time at={failure.at} /> },
  { id: "stage", header: "At", width: 90, cell: (failure) => failure.stage },
  { id: "kind", header: "Class", width: 130, cell: (failure) => words(failure.kind) },
  { id: "message", header: "Message", width: 420, cell: (failure) => <code title={failure.message}>{failure.message}</code> },
  {
    id: "trajectory", header: "Trajectory", width: 100, align: "right",
    cell: ({ trajectory_id: id }) =>
      id === null ? (
        ABSENT
      ) : (
        <Link to="/trajectories/$trajectory" params={{ trajectory: id }}>
          {id}
        </Link>
      ),
  },
  { id: "driver", header: "Driver", width: 90, cell: (failure) => failure.driver || ABSENT },
  { id: "host", header: "Host", width: 130, cell: (failure) => failure.host || ABSENT },
  { id: "engine", header: "Engine", width: 120, cell: (failure) => failure.engine || ABSENT },
  { id: "policy", header: "Caused by", width: 110, cell: (failure) => (failure.is_by_policy ? "the policy" : "the box") },
];
