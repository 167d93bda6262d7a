import { Checkbox, Popover, UnstyledButton } from "@mantine/core";

import { shownColumns, withColumn } from "../lib/table";
import classes from "./DataTable.module.css";

type Props = {
  columns: readonly { id: string; header: string; unit?: string; isExtra?: boolean }[];
  cols: string | undefined;
  onCols: (cols: string | undefined) => void;
};

/** Which columns a table shows. The first, that names the row, always stays. */
export function DataTableColumns({ columns, cols, onCols }: Props) {
  const shown = new Set(shownColumns(columns, cols).map((column) => column.id));
  return (
    <Popover position="bottom-end" trapFocus>
      <Popover.Target>
        <UnstyledButton className={classes.action} aria-haspopup="dialog">
          Columns {shown.size} / {columns.length}
        </UnstyledButton>
      </Popover.Target>
      <Popover.Dropdown aria-label="Columns">
        <div className={classes.chooser}>
          {columns.slice(1).map((column) => (
            <Checkbox
              key={column.id} size="xs" label={column.unit === undefined ? column.header : `${column.header} (${column.unit})`}
              checked={shown.has(column.id)} onChange={() => onCols(withColumn(columns, cols, column.id))}
            />
          ))}
        </div>
        <UnstyledButton className={classes.action} disabled={cols === undefined} onClick={() => onCols(undefined)}>
          Default columns
        </UnstyledButton>
      </Popover.Dropdown>
    </Popover>
  );
}
