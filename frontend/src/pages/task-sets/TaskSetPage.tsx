import { Select } from "@mantine/core";
import { useSuspenseInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { type TaskFilter, taskSetQuery, tasksQuery } from "../../api/tasks";
import type { Bucket, Task, TaskSetDetail } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Page } from "../../components/Page";
import { Stat, StatRow } from "../../components/Stat";
import { Time } from "../../components/Time";
import { useDeferredFilter } from "../../components/useDeferredFilter";
import { ABSENT, formatCount, formatShare, words } from "../../lib/format";
import { BUCKETS } from "./search";
import classes from "./TaskSets.module.css";

const route = getRouteApi("/shell/task-sets/$set");

const BUCKET: Record<Bucket, { label: string; meaning: string }> = {
  untried: { label: "Untried", meaning: "No valid trajectory yet." },
  never: { label: "Never solved", meaning: "No gradient from it until one is." },
  sometimes: { label: "Sometimes", meaning: "Mixed rewards: what training learns from." },
  always: { label: "Always solved", meaning: "No gradient from it any more." },
};

/** A task set: what the policy made of it so far, then task by task. */
export function TaskSetPage() {
  const { set: id } = route.useParams();
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const { data: set } = useSuspenseQuery(taskSetQuery(id));
  const tasks = useSuspenseInfiniteQuery(tasksQuery(id, useDeferredFilter(filter)));
  const columns = useMemo(() => columnsOf(id), [id]);
  const change = (to: TaskFilter) => {
    navigate({ search: (old) => ({ ...old, ...to }) as typeof old }).catch(() => undefined);
  };
  return (
    <Page title={`${set.name}@${set.version}`} lead={<Facts set={set} />}>
      <div className={classes.page}>
        <Curriculum set={set} chosen={filter.bucket} onChoose={(bucket) => change({ bucket })} />
        <section aria-labelledby="tasks" className={classes.section}>
          <h2 id="tasks">Tasks</h2>
          <Filters>
            <Select
              aria-label="Repository" placeholder="Any repository" clearable searchable
              data={set.repositories.map(({ name, num_tasks: num }) => ({ value: name, label: `${name} (${num})` }))}
              value={filter.repository ?? null}
              onChange={(repository) => change({ repository: repository ?? undefined })}
            />
            <Select
              aria-label="Quarantine" placeholder="Quarantined or not" clearable
              data={[{ value: "true", label: "Quarantined" }, { value: "false", label: "Usable" }]}
              value={filter.is_quarantined === undefined ? null : String(filter.is_quarantined)}
              onChange={(is) => change({ is_quarantined: is === null ? undefined : is === "true" })}
            />
            <Select
              aria-label="Solved" placeholder="However solved" clearable data={BUCKETS.map((value) => ({ value, label: BUCKET[value].label }))}
              value={filter.bucket ?? null}
              onChange={(bucket) => change({ bucket: bucket ?? undefined })}
            />
            <CopyAs path={`/api/v1/task-sets/${id}/tasks`} query={filter} />
          </Filters>
          <DataTable
            label="Tasks"
            columns={columns}
            rows={tasks.data.pages.flatMap((page) => page.results)}
            rowKey={(task) => task.id}
            onOpen={(task) => {
              navigate({ to: "/task-sets/$set/tasks/$task", params: { set: id, task: task.id } }).catch(() => undefined);
            }}
            sort={filter.sort}
            onSort={(sort) => change({ sort })}
            hasMore={tasks.hasNextPage}
            isLoadingMore={tasks.isFetchingNextPage}
            onMore={() => {
              tasks.fetchNextPage().catch(() => undefined);
            }}
            empty={
              <EmptyState title="No task is so">
                <Link to="/task-sets/$set" params={{ set: id }} search={{}}>
                  Show all {formatCount(set.num_tasks)}
                </Link>
              </EmptyState>
            }
          />
        </section>
      </div>
    </Page>
  );
}

function Facts({ set }: { set: TaskSetDetail }) {
  return (
    <p className={classes.facts}>
      <span>{words(set.split)}</span>
      <span>{formatCount(set.num_tasks)} tasks</span>
      <span>{formatCount(set.num_repositories)} repositories</span>
      <span>{formatCount(set.num_quarantined)} quarantined</span>
      {set.source !== "" && <span>from {set.source}</span>}
      <span>
        digest <code title={set.digest}>{set.digest.slice(0, 12)}</code>
      </span>
      <span>
        imported <Time at={set.created_at} />
      </span>
      <Link to="/task-sets">all task sets</Link>
    </p>
  );
}

/** Tasks by how often they are solved; a bucket is a filter. */
function Curriculum({ set, chosen, onChoose }: { set: TaskSetDetail; chosen: Bucket | undefined; onChoose: (bucket: Bucket | undefined) => void }) {
  return (
    <StatRow label="Tasks by how often they are solved, over valid trajectories of all runs">
      {BUCKETS.map((bucket) => {
        const num = set.buckets[bucket] ?? 0;
        return (
          <Stat
            key={bucket}
            label={BUCKET[bucket].label}
            value={
              <button type="button" className={classes.bucket} aria-pressed={chosen === bucket} onClick={() => onChoose(chosen === bucket ? undefined : bucket)}>
                {formatCount(num)}
              </button>
            }
            unit={set.num_tasks === 0 ? "" : formatShare(num / set.num_tasks)}
            note={BUCKET[bucket].meaning}
          />
        );
      })}
    </StatRow>
  );
}

function columnsOf(set: number): Column<Task>[] {
  return [
    {
      id: "key", header: "Task", width: 210, sortKey: "key",
      cell: (task) => (
        <Link to="/task-sets/$set/tasks/$task" params={{ set, task: task.id }}>
          {task.key}
        </Link>
      ),
    },
    { id: "repository", header: "Repository", width: 150, sortKey: "repository", cell: (task) => task.repository },
    { id: "difficulty", header: "Difficulty", width: 120, sortKey: "difficulty", cell: (task) => task.difficulty || ABSENT },
    {
      id: "rate", header: "Solve rate", unit: "of valid", width: 140, align: "right", sortKey: "solve_rate",
      meaning: "Solved of valid trajectories, all runs, evaluations included. An invalid one is in neither.",
      cell: (task) => (
        <span className={classes.rate}>
          {task.solve_rate !== null && <span style={{ width: `${task.solve_rate * 100}%` }} />}
          {formatShare(task.solve_rate)}
        </span>
      ),
    },
    { id: "solved", header: "Solved", unit: "/ valid", width: 120, align: "right", cell: (task) => `${formatCount(task.num_solved)} / ${formatCount(task.num_valid)}` },
    { id: "trajectories", header: "Trajectories", width: 110, align: "right", sortKey: "trajectories", cell: (task) => formatCount(task.num_trajectories) },
    { id: "attempts", header: "Attempts", width: 90, align: "right", sortKey: "attempts", cell: (task) => formatCount(task.num_attempts) },
    {
      id: "infra", header: "Infra failures", width: 124, align: "right", sortKey: "infra_share", meaning: "Failed attempts of the attempts that ended.",
      cell: (task) => formatShare(task.infra_share),
    },
    { id: "seen", header: "Last seen", width: 116, align: "right", sortKey: "last_seen", cell: (task) => <Time at={task.last_seen_at} /> },
    {
      id: "quarantine", header: "Quarantined", width: 170,
      cell: (task) => (task.quarantined_at === null ? ABSENT : <span title={task.quarantine_reason}>{task.quarantine_reason || "yes"}</span>),
    },
  ];
}
