import { Button, Select } from "@mantine/core";
import { useSuspenseInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { runsQuery } from "../../api/runs";
import { sessionQuery } from "../../api/session";
import type { Run } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { formatCount, formatShare } from "../../lib/format";
import { RUN_STATUS } from "../../lib/status";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { currentStage, latestResult, stageProgress } from "./progress";

const route = getRouteApi("/shell/runs");

export function RunsPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const { data: session } = useSuspenseQuery(sessionQuery());
  const runs = useSuspenseInfiniteQuery(runsQuery(filter));
  useLive(topics.runs(session.project.id));
  const rows = runs.data.pages.flatMap((page) => page.results);

  return (
    <Page
      title="Runs"
      actions={
        <Button size="xs" renderRoot={(props) => <Link {...props} to="/runs/new" />}>
          New run
        </Button>
      }
    >
      <Filters>
        <Select
          aria-label="Status"
          placeholder="Any status"
          clearable
          size="xs"
          data={Object.entries(RUN_STATUS).map(([value, face]) => ({ value, label: face.label }))}
          value={filter.status ?? null}
          onChange={(status) => {
            navigate({ search: status === null ? {} : { status } }).catch(() => undefined);
          }}
        />
      </Filters>
      <DataTable
        label="Runs"
        columns={COLUMNS}
        rows={rows}
        rowKey={(run) => run.id}
        onOpen={(run) => {
          navigate({ to: "/runs/$run/overview", params: { run: run.id } }).catch(() => undefined);
        }}
        hasMore={runs.hasNextPage}
        isLoadingMore={runs.isFetchingNextPage}
        onMore={() => {
          runs.fetchNextPage().catch(() => undefined);
        }}
        empty={
          filter.status === undefined ? (
            <EmptyState title="No runs yet" command="longtail runs launch recipes/miniature.yaml">
              Launch one from a stored recipe with “New run”, or from a shell:
            </EmptyState>
          ) : (
            <EmptyState title={`No run is ${filter.status}`}>
              <Link to="/runs">Show all runs</Link>
            </EmptyState>
          )
        }
      />
    </Page>
  );
}

const COLUMNS: Column<Run>[] = [
  {
    id: "name", header: "Run", width: 220,
    cell: (run) => (
      <Link to="/runs/$run/overview" params={{ run: run.id }}>
        {run.name}
      </Link>
    ),
  },
  { id: "status", header: "State", width: 120, cell: (run) => <StatusBadge face={RUN_STATUS[run.status]} /> },
  {
    id: "stage", header: "Stage", width: 180,
    cell: (run) => {
      const stage = currentStage(run);
      return stage === undefined ? "" : `${stage.name} ${stageProgress(stage)}`;
    },
  },
  {
    id: "solve_rate", header: "Solve rate", unit: "last evaluation", width: 180, align: "right",
    cell: (run) => {
      const stage = latestResult(run);
      return stage?.result == null ? "–" : `${stage.name} ${formatShare(stage.result.pass_at_1)}`;
    },
  },
  { id: "rate", header: "Produced", unit: "per h", width: 110, align: "right", cell: (run) => formatCount(run.counts.produced_per_h) },
  {
    id: "in_flight", header: "In flight", width: 100, align: "right",
    cell: (run) => `${formatCount(run.counts.in_flight)} / ${formatCount(run.counts.max_in_flight)}`,
  },
  { id: "failures", header: "Infra failures", width: 120, align: "right", cell: (run) => formatCount(run.counts.infra_failures) },
  { id: "version", header: "Weights", unit: "version", width: 120, align: "right", cell: (run) => formatCount(run.weight_version) },
  { id: "seed", header: "Seed", width: 64, align: "right", cell: (run) => run.seed },
  { id: "started", header: "Started", width: 130, align: "right", cell: (run) => <Time at={run.started_at} /> },
  { id: "elapsed", header: "Took", width: 100, align: "right", cell: (run) => <Elapsed from={run.started_at} to={run.finished_at} /> },
];
