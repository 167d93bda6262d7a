import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { runQuery } from "../../api/runs";
import type { Stage } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { StatusBadge } from "../../components/StatusBadge";
import { ABSENT, formatCount, formatShare } from "../../lib/format";
import { STAGE_STATUS } from "../../lib/status";
import classes from "./EvalsTab.module.css";
import { SolveRates } from "./SolveRates";

const route = getRouteApi("/shell/runs/$run/evals");

export function EvalsTab() {
  const { run: id } = route.useParams();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const stages = run.stages.filter((stage) => stage.kind === "eval");
  return (
    <div className={classes.page}>
      <SolveRates stages={run.stages} />
      <DataTable
        label="Evaluations"
        columns={columns(id)}
        rows={stages}
        rowKey={(stage) => stage.id}
        empty={<EmptyState title="No evaluations">This recipe has no eval stage.</EmptyState>}
      />
      <p className={classes.note}>
        pass@1 is the mean over tasks of the mean over valid trajectories; invalid ones (infrastructure failures) are counted apart
        and never as zeros. Intervals are 95 %, clustered by task.
      </p>
    </div>
  );
}

function columns(run: number): Column<Stage>[] {
  return [
    {
      id: "name", header: "Stage", width: 140,
      cell: (stage) => (
        <Link to="/runs/$run/trajectories" params={{ run }} search={{ stage: stage.name }}>
          {stage.name}
        </Link>
      ),
    },
    { id: "status", header: "State", width: 130, cell: (stage) => <StatusBadge face={STAGE_STATUS[stage.status]} /> },
    { id: "pass", header: "pass@1", width: 100, align: "right", cell: (stage) => formatShare(stage.result?.pass_at_1) },
    {
      id: "interval", header: "95 % interval", width: 150, align: "right",
      cell: ({ result }) => (result === null ? ABSENT : `${formatShare(result.low)} – ${formatShare(result.high)}`),
    },
    { id: "tasks", header: "Tasks", width: 80, align: "right", cell: (stage) => formatCount(stage.result?.tasks) },
    { id: "attempts", header: "Valid", unit: "trajectories", width: 140, align: "right", cell: (stage) => formatCount(stage.result?.attempts) },
    { id: "invalid", header: "Invalid", width: 90, align: "right", cell: (stage) => formatCount(stage.result?.invalid) },
  ];
}
