import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";

import { taskSetsQuery } from "../../api/tasks";
import type { TaskSet } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { Time } from "../../components/Time";
import { ABSENT, formatCount, words } from "../../lib/format";

export function TaskSetsPage() {
  const { data: sets } = useSuspenseQuery(taskSetsQuery());
  const navigate = useNavigate();
  return (
    <Page
      title="Task sets"
      lead="Named, versioned collections of tasks. A held-out one is never trained on: a launch that shares a repository is refused."
      actions={<CopyAs path="/api/v1/task-sets" />}
    >
      <DataTable
        label="Task sets"
        columns={COLUMNS}
        rows={sets}
        rowKey={(set) => set.id}
        onOpen={(set) => {
          navigate({ to: "/task-sets/$set", params: { set: set.id }, search: {} }).catch(() => undefined);
        }}
        empty={
          <EmptyState title="No task sets" command="python manage.py import_tasks DIRECTORY --name NAME --split train">
            Import a directory of tasks in Harbor's layout:
          </EmptyState>
        }
      />
    </Page>
  );
}

const COLUMNS: Column<TaskSet>[] = [
  {
    id: "name", header: "Task set", width: 240, sortValue: (set) => set.name,
    cell: (set) => (
      <Link to="/task-sets/$set" params={{ set: set.id }} search={{}}>
        {set.name}
      </Link>
    ),
  },
  { id: "version", header: "Version", width: 84, align: "right", cell: (set) => set.version, sortValue: (set) => set.version },
  { id: "split", header: "Split", width: 100, cell: (set) => words(set.split), sortValue: (set) => set.split },
  { id: "tasks", header: "Tasks", width: 80, align: "right", cell: (set) => formatCount(set.num_tasks), sortValue: (set) => set.num_tasks },
  { id: "repositories", header: "Repositories", width: 110, align: "right", cell: (set) => formatCount(set.num_repositories), sortValue: (set) => set.num_repositories },
  { id: "quarantined", header: "Quarantined", width: 110, align: "right", cell: (set) => formatCount(set.num_quarantined), sortValue: (set) => set.num_quarantined },
  { id: "source", header: "Source", width: 220, cell: (set) => <span title={set.source}>{set.source || ABSENT}</span> },
  { id: "digest", header: "Digest", width: 120, cell: (set) => <code title={set.digest}>{set.digest.slice(0, 12)}</code> },
  { id: "created", header: "Imported", width: 120, align: "right", cell: (set) => <Time at={set.created_at} />, sortValue: (set) => set.created_at },
];
