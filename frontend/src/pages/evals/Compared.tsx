import { Select } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Comparison } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { DotInterval } from "../../components/DotInterval";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { ABSENT, formatCount, formatShare } from "../../lib/format";
import { AttemptDots } from "./AttemptDots";
import { armNames, type ComparedTask, gain, meanOf, type Pair, points, pValue, shownTasks } from "./compare";
import classes from "./CompareEvals.module.css";

const route = getRouteApi("/shell/evals/compare");

type Arm = Comparison["arms"][number];

/** What the comparison found, from the whole to the single attempt. */
export function Compared({ comparison }: { comparison: Comparison }) {
  const names = useMemo(() => armNames(comparison.arms.map(({ arm }) => arm)), [comparison]);
  const nameOf = new Map(comparison.arms.map(({ arm }, index) => [arm.id, names[index] ?? ""]));
  return (
    <>
      <DotInterval
        title="Solve rate"
        note="pass@1, an invalid attempt as unsolved; 95 % clustered by task; the band is what the invalid ones may hide"
        estimates={comparison.arms.map(({ pass_at_1: rate, sensitivity, num_tasks, num_valid, num_invalid }, index) => ({
          label: names[index] ?? "", value: rate.mean, low: rate.low, high: rate.high, upTo: sensitivity.solved,
          note: `${formatCount(num_tasks)} tasks, ${formatCount(num_valid)} valid${num_invalid > 0 ? `, ${formatCount(num_invalid)} invalid` : ""}`,
        }))}
        empty="No attempt has ended"
      />
      <section className={classes.section} aria-labelledby="arms">
        <h2 id="arms">Arms</h2>
        <DataTable label="Arms" columns={armColumns(comparison.arms, names)} rows={comparison.arms} rowKey={({ arm }) => arm.id} empty={null} />
      </section>
      {comparison.pairs.length > 0 && <Pairs pairs={comparison.pairs} nameOf={nameOf} />}
      <Repositories comparison={comparison} names={names} />
      <Tasks comparison={comparison} names={names} />
    </>
  );
}

function armColumns(arms: readonly Arm[], names: readonly string[]): Column<Arm>[] {
  const ks = arms[0]?.pass_at_k.map(({ k }) => k).filter((k) => k > 1) ?? [];
  const ofK = ({ pass_at_k: all }: Arm, k: number) => all.find((one) => one.k === k);
  return [
    { id: "arm", header: "Arm", width: 150, cell: ({ arm }) => <Link to="/runs/$run/evals" params={{ run: arm.run }}>{names[arms.findIndex((one) => one.arm.id === arm.id)]}</Link> },
    { id: "pass", header: "pass@1", width: 84, align: "right", cell: (one) => formatShare(one.pass_at_1.mean) },
    { id: "interval", header: "95 % interval", width: 130, align: "right", cell: ({ pass_at_1: rate }) => `${formatShare(rate.low)} – ${formatShare(rate.high)}` },
    ...ks.map((k): Column<Arm> => ({ id: `pass@${k}`, header: `pass@${k}`, width: 76, align: "right", meaning: `Unbiased: at least one of ${k} attempts solves the task.`, cell: (one) => formatShare(ofK(one, k)?.at_least_one) })),
    ...ks.map((k): Column<Arm> => ({ id: `pass^${k}`, header: `pass^${k}`, width: 76, align: "right", meaning: `All of ${k} attempts solve the task.`, cell: (one) => formatShare(ofK(one, k)?.all) })),
    { id: "excluded", header: "Invalid left out", width: 112, align: "right", cell: (one) => formatShare(one.sensitivity.excluded) },
    { id: "solved", header: "Invalid solved", width: 108, align: "right", cell: (one) => formatShare(one.sensitivity.solved) },
    { id: "invalid", header: "Invalid", unit: "/ attempts", width: 120, align: "right", cell: (one) => `${formatCount(one.num_invalid)} / ${formatCount(one.num_attempts)}` },
  ];
}

function Pairs({ pairs, nameOf }: { pairs: readonly Pair[]; nameOf: ReadonlyMap<number, string> }) {
  const title = ({ first, second }: Pair) => `${nameOf.get(second) ?? ""} − ${nameOf.get(first) ?? ""}`;
  const columns: Column<Pair>[] = [
    { id: "pair", header: "Difference", width: 240, cell: title },
    { id: "mean", header: "pass@1", unit: "points", width: 110, align: "right", cell: (pair) => points(pair.difference.mean) },
    { id: "interval", header: "95 % interval", unit: "points", width: 160, align: "right", cell: ({ difference: { low, high } }) => `${points(low)} … ${points(high)}` },
    { id: "p", header: "p", width: 84, align: "right", meaning: "Two-sided sign-flip permutation test over tasks.", cell: (pair) => pValue(pair.p_value) },
    { id: "wins", header: "Wins", unit: "tasks", width: 90, align: "right", cell: (pair) => formatCount(pair.wins.length) },
    { id: "losses", header: "Losses", unit: "tasks", width: 100, align: "right", cell: (pair) => formatCount(pair.losses.length) },
    { id: "ties", header: "Ties", unit: "tasks", width: 90, align: "right", cell: (pair) => formatCount(pair.num_ties) },
  ];
  const last = pairs.find((pair) => pair.first === pairs[0]?.first && pair.second === pairs.at(-1)?.second) ?? pairs[0];
  return (
    <section className={classes.section} aria-labelledby="pairs">
      <h2 id="pairs">Paired differences</h2>
      <p className={classes.note}>
        Over the same tasks: interval by task-clustered bootstrap, p by flipping the sign of each task’s difference. A win is a task that the
        second arm solves more often.
      </p>
      <DataTable label="Paired differences" columns={columns} rows={pairs} rowKey={(pair) => `${pair.first} ${pair.second}`} empty={null} />
      {last !== undefined && (
        <div className={classes.lists} style={{ marginTop: 12 }}>
          <TaskKeys title={`Wins of ${title(last)}`} keys={last.wins} />
          <TaskKeys title={`Losses of ${title(last)}`} keys={last.losses} />
        </div>
      )}
    </section>
  );
}

const MANY = 40;

function TaskKeys({ title, keys }: { title: string; keys: readonly string[] }) {
  return (
    <div className={classes.list}>
      <h3>
        {title}: {formatCount(keys.length)}
      </h3>
      <p>
        {keys.length === 0 ? "none" : keys.slice(0, MANY).join(", ")}
        {keys.length > MANY && `, and ${formatCount(keys.length - MANY)} more in the table below`}
      </p>
    </div>
  );
}

function Repositories({ comparison, names }: { comparison: Comparison; names: readonly string[] }) {
  type Row = Comparison["repositories"][number];
  const columns = useMemo<Column<Row>[]>(
    () => [
      { id: "repository", header: "Repository", width: 200, cell: (row) => row.repository, sortValue: (row) => row.repository },
      { id: "tasks", header: "Tasks", width: 76, align: "right", cell: (row) => formatCount(row.num_tasks), sortValue: (row) => row.num_tasks },
      ...names.map((name, index): Column<Row> => ({ id: `${index} ${name}`, header: name, width: 150, align: "right", cell: (row) => formatShare(row.pass_at_1[index]), sortValue: (row) => row.pass_at_1[index] ?? null })),
      ...(names.length < 2
        ? []
        : [
            {
              id: "gain", header: "Last − first", unit: "points", width: 140, align: "right",
              cell: (row: Row) => points((row.pass_at_1.at(-1) ?? 0) - (row.pass_at_1[0] ?? 0)), sortValue: (row: Row) => (row.pass_at_1.at(-1) ?? 0) - (row.pass_at_1[0] ?? 0),
            } satisfies Column<Row>,
          ]),
    ],
    [names],
  );
  return (
    <section className={classes.section} aria-labelledby="repositories">
      <h2 id="repositories">By repository</h2>
      <p className={classes.note}>pass@1 over the repository’s tasks, an invalid attempt as unsolved. Few tasks: read no rate of one repository as a result.</p>
      <DataTable label="By repository" columns={columns} rows={comparison.repositories} rowKey={(row) => row.repository} empty={null} />
    </section>
  );
}

function Tasks({ comparison, names }: { comparison: Comparison; names: readonly string[] }) {
  const { show } = route.useSearch();
  const navigate = route.useNavigate();
  const rows = useMemo(() => shownTasks(comparison.tasks, show), [comparison.tasks, show]);
  const { arms } = comparison;
  const columns = useMemo<Column<ComparedTask>[]>(
    () => [
      {
        id: "task", header: "Task", width: 220, sortValue: (row) => row.task,
        cell: (row) => <Link to="/task-sets/$set/tasks/$task" params={{ set: row.task_set, task: row.task_id }}>{row.task}</Link>,
      },
      { id: "repository", header: "Repository", width: 150, cell: (row) => row.repository, sortValue: (row) => row.repository },
      ...arms.map(
        ({ arm }, index): Column<ComparedTask> => ({
          id: String(arm.id), header: names[index] ?? "", width: 40 + 14 * Math.max(...comparison.tasks.map((task) => task.attempts[index]?.length ?? 0), 8),
          sortValue: (row) => meanOf(row.attempts[index] ?? []),
          cell: (row) => (
            <Link to="/runs/$run/trajectories" params={{ run: arm.run }} search={{ stage: arm.stage, task: row.task }} aria-label={`trajectories of ${row.task} in ${names[index] ?? ""}`}>
              <AttemptDots attempts={row.attempts[index] ?? []} />
            </Link>
          ),
        }),
      ),
      ...(arms.length < 2 ? [] : [{ id: "gain", header: "Last − first", unit: "points", width: 140, align: "right", cell: (row: ComparedTask) => (gain(row) === 0 ? ABSENT : points(gain(row))), sortValue: gain } satisfies Column<ComparedTask>]),
    ],
    [comparison.tasks, arms, names],
  );
  return (
    <section className={classes.section} aria-labelledby="matrix">
      <h2 id="matrix">Tasks × arms</h2>
      <Filters>
        <Select
          aria-label="Tasks" placeholder="All tasks" clearable
          data={[{ value: "differ", label: "Where arms differ" }, { value: "wins", label: "Wins of the last" }, { value: "losses", label: "Losses of the last" }]}
          value={show ?? null}
          onChange={(chosen) => {
            navigate({ search: (old) => ({ ...old, show: chosen ?? undefined }) }).catch(() => undefined);
          }}
        />
        <div className={classes.legend} style={{ width: "auto" }}>
          <span>
            <AttemptDots attempts={[1]} /> solved
          </span>
          <span>
            <AttemptDots attempts={[0]} /> unsolved
          </span>
          <span>
            <AttemptDots attempts={[null]} /> invalid, no reward
          </span>
        </div>
      </Filters>
      <DataTable
        label="Tasks and arms" columns={columns} rows={rows} rowKey={(row) => row.task_id}
        empty={<EmptyState title={`No task of ${formatCount(comparison.tasks.length)} is so`} />}
      />
    </section>
  );
}
