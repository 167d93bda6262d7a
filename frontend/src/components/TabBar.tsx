import type { ReactNode } from "react";

import classes from "./TabBar.module.css";

/** Links to the parts of a page; the one with data-active is shown. */
export function TabBar({ label, children }: { label: string; children: ReactNode }) {
  return (
    <nav className={classes.bar} aria-label={label}>
      {children}
    </nav>
  );
}
