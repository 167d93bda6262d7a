import { useSuspenseInfiniteQuery } from "@tanstack/react-query";

import { type FailureFilter, failureGroupsQuery } from "../../api/fleet";
import type { FailureGroup } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Time } from "../../components/Time";
import { formatCount, words } from "../../lib/format";
import { useFleet } from "../../live/useFleet";

/** Failures with one fingerprint are one row. */
export function FailureGroups({ filter }: { filter: FailureFilter }) {
  const groups = useSuspenseInfiniteQuery(failureGroupsQuery(filter));
  useFleet();
  return (
    <DataTable
      label="Failure groups"
      columns={COLUMNS}
      rows={groups.data.pages.flatMap((page) => page.results)}
      rowKey={(group) => group.id}
      hasMore={groups.hasNextPage}
      isLoadingMore={groups.isFetchingNextPage}
      onMore={() => {
        groups.fetchNextPage().catch(() => undefined);
      }}
      empty={<EmptyState title="No infrastructure failures">Nothing to do: every attempt so far ended as the policy made it end.</EmptyState>}
    />
  );
}

const COLUMNS: Column<FailureGroup>[] = [
  { id: "stage", header: "At", width: 90, cell: (group) => group.stage },
  { id: "kind", header: "Class", width: 130, cell: (group) => words(group.kind) },
  { id: "message", header: "Message", width: 460, cell: (group) => <code title={group.fingerprint}>{group.message}</code> },
  { id: "count", header: "Failures", width: 90, align: "right", cell: (group) => formatCount(group.num_failures) },
  { id: "first", header: "First", width: 120, align: "right", cell: (group) => <Time at={group.first_at} /> },
  { id: "last", header: "Last", width: 120, align: "right", cell: (group) => <Time at={group.last_at} /> },
];
