import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { formatXTick, increments, type XAxis } from "../lib/axis";
import { formatTick } from "../lib/format";
import { useZone } from "../lib/preferences";
import type { Prepared } from "../lib/series";
import { asinhThreshold, type ColumnKind, columnsOf, plotData, type YScale, yRange } from "./metricPlot";
import { drawMarks } from "./metricMarks";
import classes from "./MetricChart.module.css";
import { useWidth } from "./useWidth";

export type DrawnCurve = { label: string; color: string; marker?: string; prepared: Prepared };
export type Line = { label: string; value: number };

export type CanvasProps = {
  label: string;
  curves: readonly DrawnCurve[];
  references: readonly Line[];
  thresholds: readonly Line[];
  range: { min?: number; max?: number };
  isSmoothed: boolean;
  hasGhosts: boolean;
  hasDots: boolean;
  height: number;
  x: XAxis;
  scale: YScale;
  clip: [number, number] | null;
  domain: [number, number] | undefined;
  sync: string;
  onCursor: (x: number | null) => void;
  onZoom: ((range: [number, number] | null) => void) | undefined;
};

const DISTRIBUTION: Record<YScale, number> = { linear: 1, log: 3, symlog: 4 };
/** A drag shorter than this is a click. */
const MIN_DRAG_PX = 4;

/** The drawing of a MetricChart. Each redraw is a performance measure named "chart-redraw". */
export function MetricCanvas(props: CanvasProps) {
  const { label, curves, height, x, scale, sync, isSmoothed, onZoom } = props;
  const scheme = useComputedColorScheme("light");
  const zone = useZone();
  const [host, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const redrawnAt = useRef<number | null>(null);
  // The drawing hooks outlive a render; they read what is current from here.
  const current = useRef({ ...props, width });
  useEffect(() => {
    current.current = { ...props, width };
  });
  const hasEnvelope = curves.some((curve) => curve.prepared.envelope !== undefined);
  const threshold = scale === "symlog" ? asinhThreshold(curves.map((curve) => curve.prepared)) : 1;
  const structure = JSON.stringify([curves.map((curve) => [curve.label, curve.color]), scale, x, sync, hasEnvelope, threshold, isSmoothed, onZoom === undefined]);

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis: uPlot.Axis = {
      stroke: color("--ink-2"),
      font: '11px "Inter Variable", sans-serif',
      grid: { stroke: color("--hairline"), width: 1 },
      ticks: { show: false },
    };
    const { curves: drawn, onZoom: zoom, isSmoothed: isLine } = current.current;
    const incrs = increments(x);
    const columns = columnsOf(hasEnvelope);
    const stride = columns.length;
    plot.current = new uPlot(
      {
        width: current.current.width,
        height,
        padding: [8, 10, 0, 0],
        legend: { show: false },
        tzDate: (seconds) => (zone === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
        ms: 1e-3,
        cursor: {
          sync: { key: `${sync}.${x}`, scales: ["x", null] },
          y: false,
          points: { size: 6 },
          drag: { x: true, y: false, setScale: zoom === undefined },
          ...(zoom === undefined ? {} : { bind: { dblclick: () => () => (current.current.onZoom?.(null), null) } }),
        },
        scales: {
          x: { time: x === "wall", range: (_u, min, max) => current.current.domain ?? (min === max ? [min - 1, max + 1] : [min, max]) },
          y: {
            // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is declared, but not there at run time
            distr: DISTRIBUTION[scale],
            asinh: threshold,
            range: (_u, min, max) => yRange(min, max, current.current),
          },
        },
        axes: [
          {
            ...axis, size: 22, gap: 4, grid: { show: false },
            ...(incrs === undefined ? {} : { incrs, values: (_u: uPlot, ticks: number[]) => ticks.map((tick) => formatXTick(x, tick)) }),
          },
          {
            ...axis, size: (_u, ticks) => axisWidth(ticks), gap: 6, space: 28,
            values: (_u, ticks) => ticks.map((tick: number | null) => (tick === null ? "" : formatTick(tick))),
          },
        ],
        series: [{}, ...drawn.flatMap((curve) => columns.map((kind) => seriesOf(kind, color(curve.color), color("--paper"), isLine)))],
        bands: hasEnvelope
          ? drawn.map((curve, index) => ({
              series: [index * stride + columns.indexOf("high") + 1, index * stride + columns.indexOf("low") + 1] as [number, number],
              fill: `color-mix(in srgb, ${color(curve.color)} 20%, transparent)`,
            }))
          : [],
        hooks: {
          draw: [
            (u) => {
              drawMarks(u, current.current, color);
              if (redrawnAt.current !== null) measureRedraw(redrawnAt.current);
              redrawnAt.current = null;
            },
          ],
          setCursor: [(u) => current.current.onCursor(u.cursor.idx == null ? null : (u.data[0][u.cursor.idx] ?? null))],
          setSelect: [(u) => zoomToSelection(u, current.current.onZoom)],
        },
      },
      plotData(drawn.map((curve) => curve.prepared), current.current),
      element,
    );
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [host, structure, scheme, zone, height, x, scale, sync, hasEnvelope, threshold]);

  const { references, thresholds, range, clip, domain, hasGhosts, hasDots } = props;
  const view = JSON.stringify([references, thresholds, range, clip, domain]);
  useEffect(() => {
    redrawnAt.current = performance.now();
    plot.current?.setData(plotData(curves.map((curve) => curve.prepared), { hasGhosts, hasDots, isSmoothed, scale }));
  }, [curves, view, hasGhosts, hasDots, isSmoothed, scale]);
  useEffect(() => plot.current?.setSize({ width, height }), [width, height]);

  return <div ref={host} className={classes.canvas} role="img" aria-label={label} />;
}

/** Only the last one is kept, so that a page left open for days stays small; an observer sees them all. */
function measureRedraw(start: number): void {
  performance.clearMeasures("chart-redraw");
  performance.measure("chart-redraw", { start, end: performance.now() });
}

/** A drag over one chart is drawn on all that are in step with it; only the one under the pointer asks. */
function zoomToSelection(u: uPlot, onZoom: CanvasProps["onZoom"]): void {
  const { left, width } = u.select;
  if (onZoom === undefined || width < MIN_DRAG_PX || u.cursor.event == null) return;
  onZoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

/** Room for the longest figure; 11 px digits are 7 px wide at most. uPlot has no ticks yet at its first pass. */
function axisWidth(ticks: string[] | null): number {
  return 12 + 7 * Math.max(3, ...(ticks ?? []).map((tick) => tick.length));
}

function seriesOf(kind: ColumnKind, stroke: string, paper: string, isSmoothed: boolean): uPlot.Series {
  const faint = `color-mix(in srgb, ${stroke} 38%, ${paper})`;
  switch (kind) {
    case "dots":
      return { paths: () => null, points: { show: true, size: 4, fill: faint, stroke: faint, width: 0 } };
    case "line":
      return { stroke, width: isSmoothed ? 2 : 1.5, spanGaps: true, points: { show: !isSmoothed, size: 3, fill: stroke, width: 0 } };
    case "ghosts":
      return { paths: () => null, points: { show: true, size: 4, fill: paper, stroke: faint, width: 1 } };
    case "low":
    case "high":
      return { stroke: faint, width: 0.5, spanGaps: true, points: { show: false } };
  }
}
