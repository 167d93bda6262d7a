import { Skeleton } from "@mantine/core";

import classes from "./States.module.css";

/** The shape of what comes: a title, a row of figures, rows of a table. */
export function Loading({ rows = 8 }: { rows?: number }) {
  return (
    <div className={classes.skeleton} role="status" aria-label="Loading">
      <Skeleton height={24} width={240} />
      <Skeleton height={48} />
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={20} width={`${96 - (row % 4) * 9}%`} />
      ))}
    </div>
  );
}
