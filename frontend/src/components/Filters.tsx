import { type ReactNode, useRef } from "react";

import { useKeys } from "../lib/useKeys";
import classes from "./Filters.module.css";

/** The filters of a list; `/` goes to the first of them. */
export function Filters({ children }: { children: ReactNode }) {
  const row = useRef<HTMLDivElement>(null);
  useKeys({ "/": () => row.current?.querySelector<HTMLElement>("input, select, button")?.focus() });
  return (
    <div ref={row} className={classes.filters} role="search" aria-label="Filters">
      {children}
    </div>
  );
}
