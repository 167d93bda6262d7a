import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { useProject, whyNotAct } from "../../api/me";
import { taskQuery, useTaskCommand } from "../../api/tasks";
import type { TaskDetail } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { CommandButton } from "../../components/CommandButton";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Icon } from "../../components/Icon";
import { Page } from "../../components/Page";
import { Stat, StatRow } from "../../components/Stat";
import { Time } from "../../components/Time";
import { ABSENT, formatCount, formatDuration, formatShare, visibleText, words } from "../../lib/format";
import { SolvedBySteps } from "./SolvedBySteps";
import classes from "./TaskSets.module.css";

const route = getRouteApi("/shell/task-sets/$set/tasks/$task");

/** One task: what it asks, how often it is solved as training goes on, what failed on it. */
export function TaskPage() {
  const { set, task: id } = route.useParams();
  const { role } = useProject();
  const { data: task } = useSuspenseQuery(taskQuery(set, id));
  const command = useTaskCommand(set, id);
  const isOut = task.quarantined_at !== null;
  return (
    <Page
      title={task.key}
      lead={
        <p className={classes.facts}>
          <Link to="/task-sets/$set" params={{ set }} search={{}}>
            {task.task_set_name}
          </Link>
          <Link to="/task-sets/$set" params={{ set }} search={{ repository: task.repository }}>
            {task.repository}
          </Link>
          <span>{words(task.split)}</span>
          {task.difficulty !== "" && <span>{task.difficulty}</span>}
        </p>
      }
      actions={
        <>
          {isOut ? (
            <CommandButton
              label="Lift the quarantine" title={`Let ${task.key} back in`} whyNot={whyNotAct(role)} consequence="Groups are opened on it again."
              send={(reason) => command.mutateAsync({ command: "release", reason })}
            />
          ) : (
            <CommandButton
              label="Quarantine" title={`Quarantine ${task.key}`} whyNot={whyNotAct(role)}
              consequence="No group is opened on it any more, in any run. Groups that are open go on; what was trained stays."
              send={(reason) => command.mutateAsync({ command: "quarantine", reason })}
            />
          )}
          <CopyAs path={`/api/v1/task-sets/${set}/tasks/${id}`} />
        </>
      }
    >
      <div className={classes.page}>
        {isOut && (
          <p className={classes.quarantine}>
            <Icon name="pause" /> In quarantine since <Time at={task.quarantined_at} />: {visibleText(task.quarantine_reason)}
          </p>
        )}
        <StatRow label="Facts">
          <Stat label="Solve rate" value={formatShare(task.solve_rate)} note={`${formatCount(task.num_solved)} of ${formatCount(task.num_valid)} valid, all runs`} />
          <Stat label="Trajectories" value={formatCount(task.num_trajectories)} note={`${formatCount(task.num_attempts)} attempts`} />
          <Stat label="Infra failures" value={formatShare(task.infra_share)} note={`${formatCount(task.num_failed_attempts)} attempts, of those that ended`} />
          <Stat label="Verify timeout" value={formatDuration(task.verify_timeout_s)} />
          <Stat label="Last seen" value={<Time at={task.last_seen_at} />} />
          <Stat label="Digest" value={<code title={task.digest}>{task.digest.slice(0, 12)}</code>} note="of the task's archive" />
        </StatRow>
        <section aria-labelledby="instruction" className={classes.section}>
          <h2 id="instruction">Instruction</h2>
          <CodeBlock label="instruction" text={task.instruction} />
        </section>
        <SolvedBySteps steps={task.steps} />
        <section aria-labelledby="runs" className={classes.section}>
          <h2 id="runs">Runs</h2>
          <DataTable
            label="Trajectories by run and stage" columns={stageColumns(task.key)} rows={task.stages} rowKey={(row) => `${row.run} ${row.stage}`}
            empty={<EmptyState title="No run has tried it yet" />}
          />
        </section>
        {task.failures.length > 0 && (
          <section aria-labelledby="failures" className={classes.section}>
            <h2 id="failures">Infrastructure failures on it</h2>
            <DataTable label="Failures" columns={FAILURES} rows={task.failures} rowKey={(row) => `${row.stage} ${row.kind}`} empty={null} />
          </section>
        )}
      </div>
    </Page>
  );
}

function stageColumns(task: string): Column<TaskDetail["stages"][number]>[] {
  return [
    {
      id: "run", header: "Run", width: 200,
      cell: (row) => (
        <Link to="/runs/$run/overview" params={{ run: row.run }}>
          {row.run} · {row.run_name}
        </Link>
      ),
    },
    { id: "stage", header: "Stage", width: 140, cell: (row) => row.stage },
    {
      id: "trajectories", header: "Trajectories", width: 120, align: "right",
      cell: (row) => (
        <Link to="/runs/$run/trajectories" params={{ run: row.run }} search={{ stage: row.stage, task }}>
          {formatCount(row.num_trajectories)}
        </Link>
      ),
    },
    { id: "rate", header: "Solve rate", unit: "of valid", width: 140, align: "right", cell: (row) => (row.num_valid === 0 ? ABSENT : formatShare(row.num_solved / row.num_valid)) },
    { id: "solved", header: "Solved", width: 80, align: "right", cell: (row) => formatCount(row.num_solved) },
    { id: "valid", header: "Valid", width: 80, align: "right", cell: (row) => formatCount(row.num_valid) },
    { id: "invalid", header: "Invalid", width: 80, align: "right", cell: (row) => formatCount(row.num_invalid) },
  ];
}

const FAILURES: Column<TaskDetail["failures"][number]>[] = [
  {
    id: "kind", header: "Failure", width: 240,
    cell: (row) => (
      <Link to="/failures" search={{ stage: row.stage, kind: row.kind }}>
        {row.stage}: {words(row.kind)}
      </Link>
    ),
  },
  { id: "attempts", header: "Attempts", width: 100, align: "right", cell: (row) => formatCount(row.num_attempts) },
];
