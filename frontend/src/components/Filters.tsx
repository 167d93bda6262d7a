import type { ReactNode } from "react";

import classes from "./Filters.module.css";

export function Filters({ children }: { children: ReactNode }) {
  return (
    <div className={classes.filters} role="search" aria-label="Filters">
      {children}
    </div>
  );
}
