import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Evaluation, TaskResult } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { ABSENT } from "../../lib/format";

type Row = { task: string; repository: string; cells: Record<string, Pick<TaskResult, "num_solved" | "num_valid" | "pass_at_1">> };

/** Each held-out task across the evaluations: solved of valid. */
export function TaskMatrix({ run, evaluations }: { run: number; evaluations: readonly Evaluation[] }) {
  const rows = useMemo(() => taskRows(evaluations), [evaluations]);
  const columns = useMemo<Column<Row>[]>(
    () => [
      { id: "task", header: "Task", width: 220, cell: (row) => row.task, sortValue: (row) => row.task },
      { id: "repository", header: "Repository", width: 180, cell: (row) => row.repository, sortValue: (row) => row.repository },
      ...evaluations.map(
        ({ stage }): Column<Row> => ({
          id: stage, header: stage, unit: "solved / valid", width: 150, align: "right",
          sortValue: (row) => row.cells[stage]?.pass_at_1 ?? null,
          cell: (row) => {
            const cell = row.cells[stage];
            if (cell === undefined) return ABSENT;
            return (
              <Link to="/runs/$run/trajectories" params={{ run }} search={{ stage, task: row.task }}>
                {cell.num_solved} / {cell.num_valid}
              </Link>
            );
          },
        }),
      ),
    ],
    [evaluations, run],
  );
  return <DataTable label="Tasks" columns={columns} rows={rows} rowKey={(row) => row.task} empty={null} />;
}

function taskRows(evaluations: readonly Evaluation[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { stage, tasks } of evaluations) {
    for (const { task, repository, num_solved, num_valid, pass_at_1 } of tasks) {
      const row = rows.get(task) ?? { task, repository, cells: {} };
      row.cells[stage] = { num_solved, num_valid, pass_at_1 };
      rows.set(task, row);
    }
  }
  return [...rows.values()];
}
