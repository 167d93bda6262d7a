import type { ReactNode } from "react";

import classes from "./Stat.module.css";

/** A figure with its name, unit and population. */
export function Stat({ label, value, unit, note }: { label: string; value: ReactNode; unit?: string; note?: ReactNode }) {
  return (
    <div className={classes.stat}>
      <dt>{label}</dt>
      <dd>
        <span className={classes.value}>{value}</span>
        {unit !== undefined && <span className={classes.unit}> {unit}</span>}
        {note !== undefined && <div className={classes.note}>{note}</div>}
      </dd>
    </div>
  );
}

export function StatRow({ children, label }: { children: ReactNode; label: string }) {
  return (
    <dl className={classes.row} aria-label={label}>
      {children}
    </dl>
  );
}
