import { Button, Select } from "@mantine/core";
import { useSuspenseInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { runQuery } from "../../api/runs";
import { trajectoriesQuery } from "../../api/trajectories";
import type { StopReason, Trajectory } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { formatCount, formatDuration, words } from "../../lib/format";
import { OUTCOME, outcomeOf } from "../../lib/status";
import { Reward } from "../../components/Reward";
import { versions } from "../../lib/turns";

const route = getRouteApi("/shell/runs/$run/trajectories");

export function TrajectoriesTab() {
  const { run: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const trajectories = useSuspenseInfiniteQuery(trajectoriesQuery(id, search));
  const columns = useMemo(() => columnsOf(search), [search]);
  const set = (change: Partial<typeof search>) => {
    navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
  };
  const isFiltered = Object.keys(search).length > 0;

  return (
    <>
      <Filters>
        <Select
          aria-label="Stage" placeholder="Any stage" clearable
          data={run.stages.filter((stage) => stage.kind !== "sft").map((stage) => stage.name)}
          value={search.stage ?? null}
          onChange={(stage) => set({ stage: stage ?? undefined })}
        />
        <Select
          aria-label="Outcome" placeholder="Any outcome" clearable
          data={OUTCOME_FILTERS.map(({ value, label }) => ({ value, label }))}
          value={outcomeFilterOf(search)}
          onChange={(value) => set(OUTCOME_FILTERS.find((one) => one.value === value)?.search ?? { status: undefined, reward: undefined })}
        />
        <Select
          aria-label="Stop reason" placeholder="Any stop reason" clearable
          data={STOP_REASONS.map((value) => ({ value, label: words(value) }))}
          value={search.stop_reason ?? null}
          onChange={(reason) => set({ stop_reason: reason ?? undefined })}
        />
        {search.group !== undefined && (
          <Button variant="default" onClick={() => set({ group: undefined })} aria-label={`Group ${search.group}: show all groups`}>
            Group {search.group} ×
          </Button>
        )}
      </Filters>
      <DataTable
        label="Trajectories"
        columns={columns}
        rows={trajectories.data.pages.flatMap((page) => page.results)}
        rowKey={(trajectory) => trajectory.id}
        onOpen={(trajectory) => {
          navigate({ to: "/trajectories/$trajectory", params: { trajectory: trajectory.id }, search }).catch(() => undefined);
        }}
        hasMore={trajectories.hasNextPage}
        isLoadingMore={trajectories.isFetchingNextPage}
        onMore={() => {
          trajectories.fetchNextPage().catch(() => undefined);
        }}
        empty={
          isFiltered ? (
            <EmptyState title="No trajectory matches">
              <Link to="/runs/$run/trajectories" params={{ run: id }}>
                Clear the filters
              </Link>
            </EmptyState>
          ) : (
            <EmptyState title="No trajectories yet">{run.wait_sentence || "They appear when a stage admits its first group."}</EmptyState>
          )
        }
      />
    </>
  );
}

const STOP_REASONS: Exclude<StopReason, "">[] = ["submitted", "turn_cap", "token_cap", "turn_token_cap", "time_cap", "no_action", "loop"];

/** The five outcomes in the words of the API. */
const OUTCOME_FILTERS = [
  { value: "solved", label: "Solved", search: { status: "completed", reward: "gte:1" } },
  { value: "unsolved", label: "Unsolved", search: { status: "completed", reward: "lt:1" } },
  { value: "invalid", label: "Invalid", search: { status: "failed", reward: undefined } },
  { value: "running", label: "Running", search: { status: "open", reward: undefined } },
  { value: "cancelled", label: "Cancelled", search: { status: "cancelled", reward: undefined } },
];

function outcomeFilterOf({ status, reward }: { status?: string | undefined; reward?: string | undefined }): string | null {
  return OUTCOME_FILTERS.find((one) => one.search.status === status && one.search.reward === reward)?.value ?? null;
}

function columnsOf(search: Record<string, unknown>): Column<Trajectory>[] {
  return [
    {
      id: "id", header: "Trajectory", width: 92,
      cell: ({ id }) => (
        <Link to="/trajectories/$trajectory" params={{ trajectory: id }} search={search}>
          {id}
        </Link>
      ),
    },
    { id: "outcome", header: "Outcome", width: 110, cell: (row) => <StatusBadge face={OUTCOME[outcomeOf(row)]} /> },
    { id: "reward", header: "Reward", width: 80, align: "right", cell: (row) => <Reward trajectory={row} /> },
    { id: "task", header: "Task", width: 130, cell: (row) => <span title={row.task.key}>{row.task.key}</span> },
    { id: "repository", header: "Repository", width: 104, cell: (row) => row.task.repository },
    { id: "stage", header: "Stage", width: 100, cell: (row) => row.stage },
    { id: "turns", header: "Turns", width: 64, align: "right", cell: (row) => formatCount(row.num_turns) },
    { id: "tokens", header: "Tokens", unit: "out", width: 92, align: "right", cell: (row) => formatCount(row.output_tokens) },
    {
      id: "stop", header: "Stopped by", width: 124,
      cell: (row) => (row.failure === null ? words(row.stop_reason) : `${row.failure.stage}: ${words(row.failure.kind)}`),
    },
    {
      id: "duration", header: "Took", width: 76, align: "right",
      cell: (row) => (row.duration_s === null ? <Elapsed from={row.created_at} to={row.finished_at} /> : formatDuration(row.duration_s)),
    },
    { id: "versions", header: "Weights", width: 96, align: "right", cell: (row) => versions(row) },
    { id: "attempts", header: "Attempts", width: 84, align: "right", cell: (row) => row.num_attempts },
    { id: "finished", header: "Finished", width: 92, align: "right", cell: (row) => <Time at={row.finished_at} /> },
  ];
}
