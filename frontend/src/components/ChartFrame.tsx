import { type ReactNode, useId, useState } from "react";

import classes from "./ChartFrame.module.css";
import { ScrollRegion } from "./ScrollRegion";

export type LegendItem = { label: string; color: string; mark?: "line" | "dots" | "block" | "dashes" | "band"; /** A path of lib/markers on the line. */ shape?: string };

type Props = {
  title: string;
  /** A figure that stands for the whole, as the last value. */
  value?: ReactNode;
  /** Unit and population: "over valid trajectories of a step". */
  note?: string;
  /** What is drawn, in a sentence or two. */
  definition?: string;
  legend?: LegendItem[];
  readout?: ReactNode;
  /** Buttons beside the title. */
  actions?: ReactNode;
  /** The same values as rows. Every drawing has one. */
  twin: ReactNode;
  children: ReactNode;
};

export function ChartFrame({ title, value, note, definition, legend = [], readout, actions, twin, children }: Props) {
  const [isTable, setTable] = useState(false);
  const id = useId();
  return (
    <section className={classes.frame} aria-labelledby={id}>
      <header className={classes.header} data-rows={value === undefined ? 1 : 2}>
        <h2 id={id}>{title}</h2>
        {value !== undefined && <span className={classes.value}>{value}</span>}
        {note !== undefined && <span className={classes.note} title={note}>{note}</span>}
        <span className={classes.actions}>
          {actions}
          <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            {isTable ? "Chart" : "Table"}
          </button>
        </span>
      </header>
      {definition !== undefined && <p className={classes.definition} title={definition}>{definition}</p>}
      {isTable ? (
        <ScrollRegion className={classes.twin} label={`${title}, table`}>
          {twin}
        </ScrollRegion>
      ) : (
        children
      )}
      {!isTable && (legend.length > 0 || readout !== undefined) && (
        <footer className={classes.footer}>
          {legend.map((item) => (
            <span key={item.label} className={classes.item}>
              <svg width="16" height="8" aria-hidden="true">
                <Mark item={item} />
              </svg>
              {item.label}
            </span>
          ))}
          {readout}
        </footer>
      )}
    </section>
  );
}

function Mark({ item }: { item: LegendItem }) {
  switch (item.mark ?? "line") {
    case "line":
      return (
        <>
          <path d="M0 4h16" stroke={item.color} strokeWidth="2" />
          {item.shape !== undefined && <path d={item.shape} transform="translate(8 4) scale(0.9)" fill={item.color} />}
        </>
      );
    case "band":
      return <rect width="16" height="8" fill={item.color} opacity="0.25" />;
    case "dashes":
      return <path d="M0 4h16" stroke={item.color} strokeWidth="1.5" strokeDasharray="4 3" />;
    case "dots":
      return <path d="M2 5h.01M8 3h.01M14 5h.01" stroke={item.color} strokeWidth="3.500" strokeLinecap="round" />;
    case "block":
      return <rect x="3" width="10" height="8" fill={item.color} />;
  }
}
