import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { type FailureFilter, failureGroupsQuery } from "../../api/fleet";
import type { FailureGroup } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Time } from "../../components/Time";
import { formatCount, words } from "../../lib/format";
import { useFleet } from "../../live/useFleet";

/** Failures with one fingerprint are one row; with a run, the groups that it has a failure in. */
export function FailureGroups({ filter }: { filter: FailureFilter }) {
  const navigate = useNavigate();
  const groups = useSuspenseInfiniteQuery(failureGroupsQuery(filter));
  const columns = useMemo(() => columnsOf(filter.run), [filter.run]);
  useFleet();
  return (
    <DataTable
      label="Failure groups"
      columns={columns}
      rows={groups.data.pages.flatMap((page) => page.results)}
      rowKey={(group) => group.id}
      onOpen={(group) => {
        navigate({ to: "/failures/$group", params: { group: group.id }, search: runSearch(filter.run) }).catch(() => undefined);
      }}
      hasMore={groups.hasNextPage}
      isLoadingMore={groups.isFetchingNextPage}
      onMore={() => {
        groups.fetchNextPage().catch(() => undefined);
      }}
      empty={<EmptyState title="No infrastructure failures">Every attempt so far ended as the policy made it end.</EmptyState>}
    />
  );
}

function runSearch(run: number | undefined): { run?: number } {
  return run === undefined ? {} : { run };
}

function columnsOf(run: number | undefined): Column<FailureGroup>[] {
  return [
    {
      id: "kind", header: "Failure", width: 190,
      cell: (group) => (
        <Link to="/failures/$group" params={{ group: group.id }} search={runSearch(run)}>
          {group.stage}: {words(group.kind)}
        </Link>
      ),
    },
    { id: "message", header: "Message", width: 480, cell: (group) => <code title={group.fingerprint}>{group.message}</code> },
    { id: "count", header: "Failures", unit: "all runs", width: 130, align: "right", cell: (group) => formatCount(group.num_failures) },
    { id: "first", header: "First", width: 120, align: "right", cell: (group) => <Time at={group.first_at} /> },
    { id: "last", header: "Last", width: 120, align: "right", cell: (group) => <Time at={group.last_at} /> },
  ];
}
