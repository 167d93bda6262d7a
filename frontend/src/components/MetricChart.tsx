import { type ReactNode, useMemo, useRef } from "react";

import { formatX, type XAxis, X_UNIT } from "../lib/axis";
import { formatNumber } from "../lib/format";
import { useZone } from "../lib/preferences";
import { alignX, centralRange, type EdgeKind, type Point, type Prepared, prepareSeries } from "../lib/series";
import { ChartFrame, type LegendItem } from "./ChartFrame";
import { type DrawnCurve, type Line, MetricCanvas } from "./MetricCanvas";
import classes from "./MetricChart.module.css";
import type { YScale } from "./metricPlot";

/** Points by (resume, step), or a series that the server has already put in order, smoothed and bucketed. */
export type Curve = {
  label: string;
  /** A custom property of tokens.css, as "--role-rollout". */
  color: string;
  /** A path of lib/markers, where hue alone would tell curves apart. */
  marker?: string;
} & ({ points: readonly Point[] } | { series: Prepared });

type Props = {
  title: string;
  /** The last value, where the title should carry one; the note then has a line of its own. */
  value?: ReactNode;
  /** Unit and population. */
  note?: string;
  /** What is drawn, in a sentence or two. */
  definition?: string;
  curves: readonly Curve[];
  /** Lines that a reader compares with, as the article's figures: the axis always holds them. */
  references?: readonly Line[];
  /** Lines of limits and alerts: drawn where the axis holds them, named on its edge where not. */
  thresholds?: readonly Line[];
  /** The axis always holds these. */
  range?: { min?: number; max?: number };
  /** 1 draws the values as they are; above, dots under a trailing mean. */
  window?: number;
  /** What the smoothed line is called. */
  smoothLabel?: string;
  height?: number;
  x?: XAxis;
  scale?: YScale;
  /** p1 to p99 of what is drawn, or a range; what lies outside is a mark on the edge with its value. */
  clip?: boolean | [number, number];
  /** The part of the x axis that is shown. */
  domain?: [number, number];
  /** Charts with one key move their cursors together. */
  sync?: string;
  hasGhosts?: boolean;
  /** Single points under a smoothed line. */
  hasDots?: boolean;
  /** A drag asks for a range of x, a double click for all of it. Without it the chart zooms by itself. */
  onZoom?: (range: [number, number] | null) => void;
  /** Buttons beside the title. */
  actions?: ReactNode;
  /** In the place of the drawing when there are no points. */
  empty?: ReactNode;
};

/**
 * Curves over steps or another axis: raw dots stay under the smoothed line, non-finite values are marks on the
 * edge of the axis, resumes dashed lines, superseded steps hollow ghosts, buckets a band from lowest to highest.
 */
export function MetricChart({
  title, value, note, definition, curves, references = [], thresholds = [], range = {}, window = 10, smoothLabel = `${window}-step mean`, height = 168,
  x = "step", scale = "linear", clip = false, domain, sync = "longtail", hasGhosts = true, hasDots = true, onZoom, actions, empty = "No points yet",
}: Props) {
  const zone = useZone();
  const drawn = useMemo<DrawnCurve[]>(
    () =>
      curves.map(({ label, color, marker, ...curve }) => ({
        label,
        color,
        ...(marker === undefined ? {} : { marker }),
        prepared: "series" in curve ? curve.series : prepareSeries(curve.points, window),
      })),
    [curves, window],
  );
  const isSmoothed = window > 1;
  const isEmpty = drawn.every((curve) => curve.prepared.x.length === 0);
  const legend = legendOf(drawn, references, isSmoothed ? smoothLabel : null);
  const readout = useRef<HTMLSpanElement>(null);
  return (
    <ChartFrame
      title={title}
      {...(note === undefined ? {} : { note })}
      {...(definition === undefined ? {} : { definition })}
      {...(value === undefined ? {} : { value })}
      legend={isEmpty ? [] : legend}
      readout={<span ref={readout} className={classes.readout} />}
      twin={<Twin drawn={drawn} smoothLabel={isSmoothed ? smoothLabel : null} x={x} />}
      actions={actions}
    >
      {isEmpty ? (
        <div className={classes.nothing} style={{ height }}>
          {empty}
        </div>
      ) : (
        <MetricCanvas
          {...{ curves: drawn, references, thresholds, range, isSmoothed, hasGhosts, hasDots, height, x, scale, domain, sync, onZoom }}
          label={summary(title, drawn)}
          clip={clip === true ? centralRange(drawn.map((curve) => curve.prepared)) : clip === false ? null : clip}
          onCursor={(at) => {
            if (readout.current !== null) readout.current.textContent = at === null ? "" : describe(at, drawn, isSmoothed, (value) => formatX(x, value, zone));
          }}
        />
      )}
    </ChartFrame>
  );
}

function legendOf(drawn: readonly DrawnCurve[], references: readonly Line[], smoothLabel: string | null): LegendItem[] {
  const [first, second] = drawn;
  const lines = references.map(({ label }) => ({ label, color: "var(--ink-3)", mark: "dashes" }) satisfies LegendItem);
  if (first !== undefined && second === undefined && smoothLabel !== null) {
    const color = `var(${first.color})`;
    const raw: LegendItem =
      first.prepared.envelope === undefined ? { label: "step", color, mark: "dots" } : { label: "lowest to highest", color, mark: "band" };
    return [raw, { label: smoothLabel, color }, ...lines];
  }
  return [
    ...drawn.map(({ label, color, marker }) => ({ label, color: `var(${color})`, ...(marker === undefined ? {} : { shape: marker }) })),
    ...lines,
  ];
}

const EDGE: Record<EdgeKind, string> = { nan: "NaN", "+inf": "+∞", "-inf": "−∞" };

/** What is at a place of the x axis, in words. */
function describe(at: number, drawn: readonly DrawnCurve[], isSmoothed: boolean, nameOf: (x: number) => string): string {
  const parts = drawn.flatMap(({ label, prepared }) => {
    const index = prepared.x.indexOf(at);
    if (index === -1) return [];
    const edge = prepared.edges.find((mark) => mark.x === at);
    const value = edge === undefined ? formatNumber(prepared.raw[index]) : EDGE[edge.kind];
    const mean = isSmoothed ? ` (smoothed ${formatNumber(prepared.mean[index])})` : "";
    const { envelope } = prepared;
    const span = envelope === undefined ? "" : `, ${formatNumber(envelope.low[index])} to ${formatNumber(envelope.high[index])}`;
    return `${drawn.length > 1 ? `${label} ` : ""}${value}${mean}${span}`;
  });
  const resume = drawn.flatMap(({ prepared }) => prepared.resumes).find((one) => one.x === at);
  const note = resume === undefined ? "" : ` · resume ${resume.resume}${resume.note === undefined ? "" : `: ${resume.note}`}`;
  return `${nameOf(at)}: ${parts.join(", ")}${note}`;
}

function summary(title: string, drawn: readonly DrawnCurve[]): string {
  const parts = drawn.map(({ label, prepared }) => {
    const values = prepared.raw.filter((value) => value !== null);
    const name = drawn.length > 1 ? `${label}: ` : "";
    if (values.length === 0) return `${name}no finite points`;
    const { low, high } = prepared.envelope ?? { low: values, high: values };
    const known = (list: readonly (number | null)[]) => list.filter((value) => value !== null);
    const span = `from ${formatNumber(Math.min(...known(low)))} to ${formatNumber(Math.max(...known(high)))}`;
    return `${name}${values.length} ${prepared.envelope === undefined ? "points" : "buckets"}, last ${formatNumber(values.at(-1))}, ${span}`;
  });
  return `${title}. ${parts.join("; ")}`;
}

/** The same values as rows, newest first. */
function Twin({ drawn, smoothLabel, x }: { drawn: readonly DrawnCurve[]; smoothLabel: string | null; x: XAxis }) {
  const zone = useZone();
  const places = alignX(drawn.map((curve) => curve.prepared)).reverse();
  const columns = drawn.map(({ label, prepared }) => ({
    label,
    prepared,
    at: new Map(prepared.x.map((place, index) => [place, index])),
    edges: new Map(prepared.edges.map((edge) => [edge.x, EDGE[edge.kind]])),
  }));
  const headers = columns.flatMap(({ label, prepared }) => [
    label,
    ...(smoothLabel === null ? [] : [drawn.length > 1 ? `${label}, ${smoothLabel}` : smoothLabel]),
    ...(prepared.envelope === undefined ? [] : ["lowest", "highest"]),
  ]);
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{X_UNIT[x]}</th>
          {headers.map((header, index) => (
            <th key={index} scope="col">
              {header}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {places.map((place) => (
          <tr key={place}>
            <th scope="row">{x === "step" ? place : formatX(x, place, zone)}</th>
            {columns.flatMap(({ prepared, at, edges }, column) => {
              const index = at.get(place) ?? -1;
              const cells = [edges.get(place) ?? formatNumber(prepared.raw[index])];
              if (smoothLabel !== null) cells.push(formatNumber(prepared.mean[index]));
              if (prepared.envelope !== undefined) cells.push(formatNumber(prepared.envelope.low[index]), formatNumber(prepared.envelope.high[index]));
              return cells.map((cell, i) => <td key={`${column}.${i}`}>{cell}</td>);
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
