import { type ReactNode, useEffect } from "react";

import classes from "./Page.module.css";

type Props = { title: string; badge?: ReactNode; lead?: ReactNode; actions?: ReactNode; children: ReactNode };

export function Page({ title, badge, lead, actions, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Longtail`;
  }, [title]);
  return (
    <>
      <header className={classes.header}>
        <div className={classes.heading}>
          <div className={classes.title}>
            <h1>{title}</h1>
            {badge}
          </div>
          {lead !== undefined && <div className={classes.lead}>{lead}</div>}
        </div>
        {actions !== undefined && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </>
  );
}
