import type { ReactNode } from "react";

import classes from "./figures.module.css";

/** What is wider than its box scrolls inside it, by keyboard too. */
export function Scroll({ label, children }: { label: string; children: ReactNode }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- who scrolls with keys must be able to get here
    <div className={classes.scroll} role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
