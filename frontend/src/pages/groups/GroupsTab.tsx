import { Select } from "@mantine/core";
import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { groupsQuery } from "../../api/runs";
import type { Group } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatCount, formatNumber, words } from "../../lib/format";
import { GROUP_STATUS } from "../../lib/status";

const route = getRouteApi("/shell/runs/$run/groups");

export function GroupsTab() {
  const { run: id } = route.useParams();
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const groups = useSuspenseInfiniteQuery(groupsQuery(id, filter));
  return (
    <>
      <Filters>
        <Select
          aria-label="Status"
          placeholder="Any status"
          clearable
         
          data={Object.entries(GROUP_STATUS).map(([value, face]) => ({ value, label: face.label }))}
          value={filter.status ?? null}
          onChange={(status) => {
            navigate({ search: (old) => ({ ...old, status: status ?? undefined }) }).catch(() => undefined);
          }}
        />
      </Filters>
      <DataTable
        label="Groups"
        columns={columns(id)}
        rows={groups.data.pages.flatMap((page) => page.results)}
        rowKey={(group) => group.id}
        onOpen={(group) => {
          navigate({ to: "/runs/$run/trajectories", params: { run: id }, search: { group: group.id } }).catch(() => undefined);
        }}
        hasMore={groups.hasNextPage}
        isLoadingMore={groups.isFetchingNextPage}
        onMore={() => {
          groups.fetchNextPage().catch(() => undefined);
        }}
        empty={<EmptyState title="No groups">A group opens when a stage admits a task.</EmptyState>}
      />
    </>
  );
}

function columns(run: number): Column<Group>[] {
  return [
    {
      id: "group", header: "Group", width: 90,
      cell: (group) => (
        <Link to="/runs/$run/trajectories" params={{ run }} search={{ group: group.id }}>
          {group.id}
        </Link>
      ),
    },
    {
      id: "status", header: "State", width: 190,
      cell: (group) => (
        <StatusBadge face={GROUP_STATUS[group.status]} {...(group.drop_reason ? { detail: words(group.drop_reason) } : {})} />
      ),
    },
    { id: "stage", header: "Stage", width: 110, cell: (group) => group.stage },
    { id: "task", header: "Task", width: 200, cell: (group) => group.task.key },
    { id: "repository", header: "Repository", width: 150, cell: (group) => group.task.repository },
    { id: "ended", header: "Ended", unit: "of members", width: 130, align: "right", cell: (group) => `${group.num_ended} / ${group.num_members}` },
    { id: "valid", header: "Valid", width: 70, align: "right", cell: (group) => formatCount(group.num_valid) },
    {
      id: "mean", header: "Reward", unit: "valid mean ± std", width: 160, align: "right",
      cell: (group) => (group.reward_mean === null ? ABSENT : `${formatNumber(group.reward_mean)} ± ${formatNumber(group.reward_std)}`),
    },
    { id: "version", header: "Oldest", unit: "version", width: 110, align: "right", cell: (group) => formatCount(group.oldest_version) },
    { id: "step", header: "Step", width: 70, align: "right", cell: (group) => formatCount(group.step) },
    { id: "opened", header: "Opened", width: 110, align: "right", cell: (group) => <Time at={group.opened_at} /> },
    { id: "took", header: "Took", width: 90, align: "right", cell: (group) => <Elapsed from={group.opened_at} to={group.finished_at} /> },
  ];
}
