import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Evaluation } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { ABSENT } from "../../lib/format";

type Row = { task: string; repository: string; cells: Record<string, { num_solved: number; num_valid: number }> };

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
          sortValue: (row) => shareOf(row.cells[stage]),
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

function shareOf(cell: Row["cells"][string] | undefined): number | null {
  return cell === undefined || cell.num_valid === 0 ? null : cell.num_solved / cell.num_valid;
}

function taskRows(evaluations: readonly Evaluation[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { stage, tasks } of evaluations) {
    for (const { task, repository, num_solved, num_valid } of tasks) {
      const row = rows.get(task) ?? { task, repository, cells: {} };
      row.cells[stage] = { num_solved, num_valid };
      rows.set(task, row);
    }
  }
  return [...rows.values()];
}
