import type { ReactNode } from "react";

import { CopyButton } from "./CopyButton";
import classes from "./States.module.css";

/** Nothing here, and what to do about it. */
export function EmptyState({ title, children, command }: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className={classes.state}>
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && (
        <div className={classes.command}>
          <code>{command}</code>
          <CopyButton text={command} label="Copy the command" />
        </div>
      )}
    </div>
  );
}
