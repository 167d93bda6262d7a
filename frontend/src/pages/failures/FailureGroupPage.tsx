import { useSuspenseInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { failureGroupQuery, failuresQuery } from "../../api/fleet";
import type { Failure } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { Stat, StatRow } from "../../components/Stat";
import { Time } from "../../components/Time";
import { ABSENT, formatCount, words } from "../../lib/format";
import { useFleet } from "../../live/useFleet";
import classes from "./FailureGroupPage.module.css";

const route = getRouteApi("/shell/failures/$group");

/** One fingerprint and every failure that has it. */
export function FailureGroupPage() {
  const { group: id } = route.useParams();
  const { run } = route.useSearch();
  const { data: group } = useSuspenseQuery(failureGroupQuery(id));
  const failures = useSuspenseInfiniteQuery(failuresQuery(id, { run }));
  useFleet();
  return (
    <Page
      title={`${group.stage}: ${words(group.kind)}`}
      lead={
        run === undefined ? (
          <Link to="/failures">all failures</Link>
        ) : (
          <Link to="/runs/$run/failures" params={{ run }}>
            failures of run {run}
          </Link>
        )
      }
    >
      <div className={classes.page}>
        <StatRow label="Facts">
          <Stat label="Failures" value={formatCount(group.num_failures)} note="of all runs" />
          <Stat label="First" value={<Time at={group.first_at} />} />
          <Stat label="Last" value={<Time at={group.last_at} />} />
        </StatRow>
        <CodeBlock label="message" text={group.message} />
        <p className={classes.why}>
          Grouped by <code>{group.fingerprint}</code>: stage, class and message without what varies.
        </p>
        <DataTable
          label="Failures of the group"
          columns={COLUMNS}
          rows={failures.data.pages.flatMap((page) => page.results)}
          rowKey={(failure) => failure.id}
          hasMore={failures.hasNextPage}
          isLoadingMore={failures.isFetchingNextPage}
          onMore={() => {
            failures.fetchNextPage().catch(() => undefined);
          }}
          empty={<EmptyState title="No failure of this group in this run" />}
        />
      </div>
    </Page>
  );
}

const COLUMNS: Column<Failure>[] = [
  { id: "at", header: "When", width: 110, cell: (failure) => <Time at={failure.at} /> },
  { id: "message", header: "Message", width: 420, cell: (failure) => <code title={failure.message}>{failure.message}</code> },
  {
    id: "run", header: "Run", width: 70, align: "right",
    cell: ({ run_id: run }) =>
      run === null ? (
        ABSENT
      ) : (
        <Link to="/runs/$run/overview" params={{ run }}>
          {run}
        </Link>
      ),
  },
  {
    id: "trajectory", header: "Trajectory", width: 100, align: "right",
    cell: ({ trajectory_id: trajectory }) =>
      trajectory === null ? (
        ABSENT
      ) : (
        <Link to="/trajectories/$trajectory" params={{ trajectory }}>
          {trajectory}
        </Link>
      ),
  },
  { id: "driver", header: "Driver", width: 90, cell: (failure) => failure.driver || ABSENT },
  { id: "host", header: "Host", width: 130, cell: (failure) => failure.host || ABSENT },
  { id: "engine", header: "Engine", width: 120, cell: (failure) => failure.engine || ABSENT },
  { id: "policy", header: "Caused by", width: 110, cell: (failure) => (failure.is_by_policy ? "the policy" : "the box") },
];
