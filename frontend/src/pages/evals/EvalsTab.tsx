import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { evaluationsQuery } from "../../api/runs";
import type { Evaluation } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { DotInterval } from "../../components/DotInterval";
import { EmptyState } from "../../components/EmptyState";
import { StatusBadge } from "../../components/StatusBadge";
import { ABSENT, formatCount, formatShare } from "../../lib/format";
import { STAGE_STATUS } from "../../lib/status";
import classes from "./EvalsTab.module.css";
import { TaskMatrix } from "./TaskMatrix";

const route = getRouteApi("/shell/runs/$run/evals");

/** Solve rates with intervals and populations, also while an evaluation runs; then task by task. */
export function EvalsTab() {
  const { run: id } = route.useParams();
  const { data: evaluations } = useSuspenseQuery(evaluationsQuery(id));
  if (evaluations.length === 0) return <EmptyState title="No evaluations">This recipe has no eval stage.</EmptyState>;
  const began = evaluations.filter((one) => one.num_scheduled > 0);
  return (
    <div className={classes.page}>
      <DotInterval
        title="Solve rate"
        note="pass@1, an invalid attempt as unsolved; 95 % clustered by task; hollow while it runs"
        estimates={evaluations.flatMap(({ stage, pass_at_1: rate, if_invalid_solved, num_tasks, num_valid, num_invalid, is_final }) =>
          rate === null
            ? []
            : [
                {
                  label: stage, value: rate.mean, low: rate.low, high: rate.high, upTo: if_invalid_solved, isProvisional: !is_final,
                  note: `${formatCount(num_tasks)} tasks, ${formatCount(num_valid)} valid${num_invalid > 0 ? `, ${formatCount(num_invalid)} invalid` : ""}`,
                },
              ],
        )}
        references={Object.entries(evaluations.at(-1)?.baselines ?? {}).map(([name, { mean }]) => ({ label: name.replaceAll("_", " "), value: mean }))}
        empty="No trajectory has been graded"
      />
      {began.length > 0 && (
        <p className={classes.note}>
          <Link to="/evals/compare" search={{ arms: began.map((one) => one.id).join(",") }}>
            Compare {began.length === 1 ? "it with another run’s" : "these attempt by attempt"}
          </Link>
          : paired test, pass@k, wins and losses, repositories.
        </p>
      )}
      <DataTable label="Evaluations" columns={columns(id)} rows={evaluations} rowKey={(one) => one.stage} empty={null} />
      <p className={classes.note}>
        pass@1 is the mean over tasks of the mean over attempts. An invalid attempt (an infrastructure failure) has no reward; here
        alone it counts as unsolved. What that may hide stands beside it: the rate of the valid ones only, and the rate had every
        invalid one solved its task (the band).
      </p>
      <TaskMatrix run={id} evaluations={evaluations} />
    </div>
  );
}

/** "+15.3 [+9.8, +21.0] to base": over the same tasks, with its 95 % interval. */
function pairedOf({ paired }: Evaluation): string {
  if (paired === null) return ABSENT;
  const points = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)}`;
  return `${points(paired.mean)} [${points(paired.low)}, ${points(paired.high)}] to ${paired.against}`;
}

function columns(run: number): Column<Evaluation>[] {
  return [
    {
      id: "name", header: "Stage", width: 110,
      cell: ({ stage }) => (
        <Link to="/runs/$run/trajectories" params={{ run }} search={{ stage }}>
          {stage}
        </Link>
      ),
    },
    { id: "status", header: "State", width: 116, cell: (one) => <StatusBadge face={STAGE_STATUS[one.status]} /> },
    { id: "version", header: "Weights", width: 80, align: "right", cell: (one) => (one.weight_version === null ? ABSENT : `v${one.weight_version}`) },
    { id: "pass", header: "pass@1", width: 90, align: "right", cell: (one) => formatShare(one.pass_at_1?.mean) },
    {
      id: "interval", header: "95 % interval", width: 136, align: "right",
      cell: ({ pass_at_1: rate }) => (rate === null ? ABSENT : `${formatShare(rate.low)} – ${formatShare(rate.high)}`),
    },
    { id: "valid_only", header: "Valid only", width: 100, align: "right", cell: (one) => formatShare(one.valid_only) },
    { id: "at_most", header: "Invalid solved", width: 120, align: "right", cell: (one) => formatShare(one.if_invalid_solved) },
    { id: "paired", header: "Paired difference", unit: "points", width: 206, align: "right", cell: (one) => pairedOf(one) },
    { id: "tasks", header: "Tasks", width: 64, align: "right", cell: (one) => formatCount(one.num_tasks) },
    { id: "valid", header: "Valid", unit: "of scheduled", width: 140, align: "right", cell: (one) => `${formatCount(one.num_valid)} / ${formatCount(one.num_scheduled)}` },
    { id: "invalid", header: "Invalid", width: 72, align: "right", cell: (one) => formatCount(one.num_invalid) },
  ];
}
