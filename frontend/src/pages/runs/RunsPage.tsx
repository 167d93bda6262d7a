import { Button, Select } from "@mantine/core";
import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { useProject } from "../../api/me";
import { runsQuery } from "../../api/runs";
import type { Run } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatShare } from "../../lib/format";
import { RUN_STATUS } from "../../lib/status";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { currentStage, latestResult, stageProgress } from "../../lib/progress";

const route = getRouteApi("/shell/runs");

export function RunsPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const project = useProject();
  const runs = useSuspenseInfiniteQuery(runsQuery(filter));
  useLive(topics.runs(project.id));
  const rows = runs.data.pages.flatMap((page) => page.results);

  return (
    <Page
      title="Runs"
      actions={
        <Button renderRoot={(props) => <Link {...props} to="/runs/new" />}>
          New run
        </Button>
      }
    >
      <Filters>
        <Select
          aria-label="Status"
          placeholder="Any status"
          clearable
         
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
    id: "name", header: "Run", width: 180,
    cell: (run) => (
      <Link to="/runs/$run/overview" params={{ run: run.id }}>
        {run.name}
      </Link>
    ),
  },
  { id: "status", header: "State", width: 120, cell: (run) => <StatusBadge face={RUN_STATUS[run.status]} /> },
  { id: "waits", header: "Waits for", width: 250, cell: (run) => <span title={run.wait_sentence}>{run.wait_sentence || run.stop_reason || ABSENT}</span> },
  {
    id: "stage", header: "Stage", width: 140,
    cell: (run) => {
      const stage = currentStage(run.stages);
      return stage === undefined ? "" : `${stage.name} ${stageProgress(stage)}`;
    },
  },
  {
    id: "solve_rate", header: "Solve rate", unit: "newest", width: 130, align: "right",
    cell: (run) => {
      const stage = latestResult(run.stages);
      return stage === undefined ? ABSENT : `${stage.name} ${formatShare(stage.pass_at_1)}`;
    },
  },
  { id: "version", header: "Weights", width: 76, align: "right", cell: (run) => `v${run.weight_version}` },
  { id: "recipe", header: "Recipe", width: 100, cell: (run) => run.recipe },
  { id: "seed", header: "Seed", width: 56, align: "right", cell: (run) => run.seed },
  { id: "by", header: "By", width: 64, cell: (run) => run.created_by ?? ABSENT },
  { id: "started", header: "Started", width: 104, align: "right", cell: (run) => <Time at={run.started_at} /> },
  { id: "elapsed", header: "Took", width: 88, align: "right", cell: (run) => <Elapsed from={run.started_at} to={run.finished_at} /> },
];
