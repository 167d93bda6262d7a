import { Select } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { groupsQuery } from "../../api/groups";
import { runQuery } from "../../api/runs";
import type { Group } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Loading } from "../../components/Loading";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatCount, formatNumber, words } from "../../lib/format";
import { GROUP_STATUS } from "../../lib/status";
import { ZERO_GRADIENT } from "./gradient";
import classes from "./groups.module.css";

const route = getRouteApi("/shell/runs/$run/groups");

/** The GRPO baselines of a run: what each group came to and which of them teach nothing. */
export function GroupsTab() {
  const { run: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { cols, ...query } = search;
  const { sort, ...filter } = query;
  const list = useInfiniteQuery({ ...groupsQuery(id, query), placeholderData: keepPreviousData, throwOnError: true });
  const columns = useMemo(() => columnsOf(id), [id]);
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.results) ?? [], [list.data]);
  const set = (change: Partial<typeof search>) => {
    navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
  };
  const isFiltered = Object.keys(filter).length > 0;

  return (
    <>
      <Filters>
        <Select
          aria-label="Stage" placeholder="Any stage" size="xs" clearable data={run.stages.filter(({ kind }) => kind !== "sft").map(({ name }) => name)}
          value={search.stage ?? null} onChange={(stage) => set({ stage: stage ?? undefined })}
        />
        <Select
          aria-label="State" placeholder="Any state" size="xs" clearable data={Object.entries(GROUP_STATUS).map(([value, face]) => ({ value, label: face.label }))}
          value={search.status ?? null} onChange={(status) => set({ status: status ?? undefined })}
        />
        <Select
          aria-label="Gradient" placeholder="Any gradient" size="xs" clearable
          data={[{ value: Object.keys(ZERO_GRADIENT).join(","), label: "zero, for any reason" }, ...Object.entries(ZERO_GRADIENT).map(([value, { label }]) => ({ value, label }))]}
          value={search.zero_gradient ?? null} onChange={(reason) => set({ zero_gradient: reason ?? undefined })}
        />
        <Select
          aria-label="Members" placeholder="Any members" size="xs" clearable data={[{ value: "true", label: "some invalid" }, { value: "false", label: "none invalid" }]}
          value={search.has_invalid ?? null} onChange={(flag) => set({ has_invalid: flag ?? undefined })}
        />
        {(["task", "repository", "step"] as const).filter((name) => search[name] !== undefined).map((name) => (
          <button key={name} type="button" className={classes.chip} onClick={() => set({ [name]: undefined })} aria-label={`${name} ${search[name]}: any ${name}`}>
            {name} {search[name]} ×
          </button>
        ))}
        <CopyAs path={`/api/v1/runs/${id}/groups`} query={query} />
      </Filters>
      {list.data === undefined ? <Loading /> : (
        <DataTable
          label="Groups"
          columns={columns}
          rows={rows}
          rowKey={(group) => group.id}
          onOpen={(group) => {
            navigate({ to: "/runs/$run/groups/$group", params: { run: id, group: group.id } }).catch(() => undefined);
          }}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => {
            list.fetchNextPage().catch(() => undefined);
          }}
          sort={sort} onSort={(next) => set({ sort: next })}
          cols={cols} onCols={(next) => set({ cols: next })}
          live={JSON.stringify(list.isPlaceholderData ? null : query)}
          empty={
            isFiltered ? (
              <EmptyState title="No group matches">
                <Link to="/runs/$run/groups" params={{ run: id }}>
                  Clear the filters
                </Link>
              </EmptyState>
            ) : (
              <EmptyState title="No groups yet">{run.wait_sentence || "A group opens when a stage admits a task."}</EmptyState>
            )
          }
        />
      )}
    </>
  );
}

function columnsOf(run: number): Column<Group>[] {
  return [
    {
      id: "group", header: "Group", width: 72, sortKey: "id",
      cell: (group) => (
        <Link to="/runs/$run/groups/$group" params={{ run, group: group.id }}>
          {group.id}
        </Link>
      ),
    },
    {
      id: "status", header: "State", width: 148, sortKey: "status",
      cell: (group) => <StatusBadge face={GROUP_STATUS[group.status]} {...(group.drop_reason ? { detail: words(group.drop_reason) } : {})} />,
    },
    { id: "task", header: "Task", width: 190, sortKey: "task", cell: (group) => <span title={group.task.key}>{group.task.key}</span> },
    { id: "repository", header: "Repository", width: 130, sortKey: "repository", isExtra: true, cell: (group) => group.task.repository },
    { id: "stage", header: "Stage", width: 104, sortKey: "stage", cell: (group) => group.stage },
    {
      id: "mean", header: "Reward", unit: "valid mean ± std", width: 160, align: "right", sortKey: "mean",
      cell: (group) => (group.reward_mean === null ? ABSENT : `${formatNumber(group.reward_mean)} ± ${formatNumber(group.reward_std)}`),
    },
    {
      id: "gradient", header: "Zero gradient", width: 112, sortKey: "zero_gradient",
      cell: (group) => (group.zero_gradient === "" ? ABSENT : <span title={ZERO_GRADIENT[group.zero_gradient].meaning}>{ZERO_GRADIENT[group.zero_gradient].label}</span>),
    },
    { id: "valid", header: "Valid", unit: "of ended / all", width: 140, align: "right", sortKey: "valid", cell: (group) => <Members group={group} /> },
    { id: "version", header: "Oldest", unit: "version", width: 112, align: "right", sortKey: "version", cell: (group) => formatCount(group.oldest_version) },
    { id: "step", header: "Step", width: 64, align: "right", sortKey: "step", cell: (group) => formatCount(group.step_index) },
    { id: "opened", header: "Opened", width: 112, align: "right", sortKey: "opened", isExtra: true, cell: (group) => <Time at={group.opened_at} /> },
    { id: "took", header: "Took", width: 84, align: "right", cell: (group) => <Elapsed from={group.opened_at} to={group.ready_at ?? group.finished_at} /> },
    { id: "finished", header: "Finished", width: 96, align: "right", sortKey: "finished", cell: (group) => <Time at={group.finished_at} /> },
  ];
}

function Members({ group }: { group: Group }) {
  const isShort = group.num_valid !== null && group.num_valid < group.num_ended;
  return (
    <span className={isShort ? classes.short : undefined} title={isShort ? "Some members have no reward: the infrastructure failed them, or they were cancelled." : undefined}>
      {formatCount(group.num_valid)} / {group.num_ended} / {group.num_members}
    </span>
  );
}
