import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { formatNumber, formatTick } from "../lib/format";
import { alignX, onto, type Point, type Prepared, prepareSeries } from "../lib/series";
import { ChartFrame, type LegendItem } from "./ChartFrame";
import classes from "./MetricChart.module.css";
import { useWidth } from "./useWidth";

export type Curve = {
  label: string;
  /** A custom property of tokens.css, as "--role-rollout". */
  color: string;
  points: readonly Point[];
};

type Props = {
  title: string;
  note?: string;
  curves: readonly Curve[];
  /** Lines that a reader compares with: thresholds, figures of the article. */
  references?: { label: string; value: number }[];
  /** The axis always holds these. */
  range?: { min?: number; max?: number };
  /** 1 draws the values as they are; above, dots under a trailing mean. */
  window?: number;
  height?: number;
};

/** Cursors of all charts of a page move together. */
const SYNC = "longtail";

/**
 * Curves over steps: raw dots stay under their trailing mean, non-finite values are marks on the edge of the
 * axis, resumes dashed lines, superseded steps hollow ghosts.
 */
export function MetricChart({ title, note, curves, references = [], range = {}, window = 10, height = 168 }: Props) {
  const prepared = useMemo(() => curves.map((curve) => prepareSeries(curve.points, window)), [curves, window]);
  const legend: LegendItem[] =
    curves.length === 1 && window > 1
      ? [
          { label: "step", color: `var(${curves[0]?.color ?? "--ink"})`, mark: "dots" },
          { label: `${window}-step mean`, color: `var(${curves[0]?.color ?? "--ink"})` },
        ]
      : curves.map((curve) => ({ label: curve.label, color: `var(${curve.color})` }));
  for (const reference of references) legend.push({ label: reference.label, color: "var(--ink-3)", mark: "dashes" });
  const isEmpty = prepared.every((one) => one.x.length === 0);

  const readout = useRef<HTMLSpanElement>(null);
  return (
    <ChartFrame
      title={title}
      {...(note === undefined ? {} : { note })}
      legend={isEmpty ? [] : legend}
      readout={<span ref={readout} className={classes.readout} />}
      twin={<Twin curves={curves} prepared={prepared} window={window} />}
    >
      {isEmpty ? (
        <div className={classes.nothing} style={{ height }}>
          No points yet
        </div>
      ) : (
        <Canvas
          {...{ title, curves, prepared, references, range, window, height }}
          onCursor={(text) => {
            if (readout.current !== null) readout.current.textContent = text;
          }}
        />
      )}
    </ChartFrame>
  );
}

type CanvasProps = Required<Omit<Props, "note">> & { prepared: Prepared[]; onCursor: (text: string) => void };

function Canvas({ title, curves, prepared, references, range, window, height, onCursor }: CanvasProps) {
  const scheme = useComputedColorScheme("light");
  const [host, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const data = useMemo(() => plotData(prepared, window), [prepared, window]);
  // The drawing hooks outlive a render; they read what is current from here.
  const current = useRef({ curves, prepared, references, range, data, onCursor, width });
  useEffect(() => {
    current.current = { curves, prepared, references, range, data, onCursor, width };
  });
  const structure = curves.map((curve) => curve.label + curve.color).join("|");

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
    const latest = current.current;
    plot.current = new uPlot(
      {
        width: latest.width,
        height,
        padding: [6, 10, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: SYNC }, y: false, points: { size: 6 }, drag: { x: true, y: false } },
        scales: {
          x: { time: false, range: (_u, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) },
          y: { range: (_u, min, max) => yRange(min, max, current.current) },
        },
        axes: [
          { ...axis, size: 22, gap: 4, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], grid: { show: false } },
          { ...axis, size: (_u, ticks) => axisWidth(ticks), gap: 6, space: 28, values: (_u, ticks) => ticks.map(formatTick) },
        ],
        series: [{}, ...latest.curves.flatMap((curve) => seriesOf(color(curve.color), color("--paper"), window))],
        hooks: {
          draw: [(u) => drawMarks(u, current.current, color)],
          setCursor: [(u) => current.current.onCursor(describe(u.cursor.idx ?? null, current.current, window))],
        },
      },
      latest.data,
      element,
    );
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [host, structure, scheme, height, window]);

  useEffect(() => plot.current?.setData(data), [data]);
  useEffect(() => plot.current?.setSize({ width, height }), [width, height]);

  return <div ref={host} className={classes.canvas} role="img" aria-label={summary(title, curves, prepared)} />;
}

/** Room for the longest figure; 11 px digits are 7 px wide at most. uPlot has no ticks yet at its first pass. */
function axisWidth(ticks: string[] | null): number {
  return 12 + 7 * Math.max(3, ...(ticks ?? []).map((tick) => tick.length));
}

/** Per curve: dots, mean, ghosts. */
function plotData(prepared: readonly Prepared[], window: number): uPlot.AlignedData {
  const ghosts = prepared.map((one) => ({
    x: one.ghosts.map((ghost) => ghost.step),
    values: one.ghosts.map((ghost) => ghost.value),
  }));
  const x = alignX([...prepared, ...ghosts]);
  const columns = prepared.flatMap((one, index) => {
    const ghost = ghosts[index] ?? { x: [], values: [] };
    return [
      window > 1 ? onto(x, one.x, one.raw) : x.map(() => null),
      onto(x, one.x, window > 1 ? one.mean : one.raw),
      onto(x, ghost.x, ghost.values),
    ];
  });
  return [x, ...columns];
}

function seriesOf(stroke: string, paper: string, window: number): uPlot.Series[] {
  const faint = `color-mix(in srgb, ${stroke} 38%, ${paper})`;
  return [
    { paths: () => null, points: { show: true, size: 4, fill: faint, stroke: faint, width: 0 } },
    { stroke, width: window > 1 ? 2 : 1.5, spanGaps: true, points: { show: window === 1, size: 3, fill: stroke, width: 0 } },
    { paths: () => null, points: { show: true, size: 4, fill: paper, stroke: faint, width: 1 } },
  ];
}

type Latest = Pick<CanvasProps, "curves" | "prepared" | "references" | "range">;

function yRange(min: number, max: number, { references, range }: Latest): [number, number] {
  const all = [...references.map((reference) => reference.value), min, max];
  if (range.min !== undefined) all.push(range.min);
  if (range.max !== undefined) all.push(range.max);
  const finite = all.filter((value) => Number.isFinite(value));
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  if (low === high) {
    const room = (Math.abs(low) || 1) * 0.5;
    return [range.min !== undefined && low - room < range.min ? range.min : low - room, high + room];
  }
  const pad = (high - low) * 0.08;
  return [range.min !== undefined && low >= range.min ? low : low - pad, range.max !== undefined && high <= range.max ? high : high + pad];
}

function drawMarks(u: uPlot, { curves, prepared, references }: Latest, color: (name: string) => string): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.strokeStyle = color("--ink-3");
  for (const { value } of references) {
    const y = u.valToPos(value, "y", true);
    line(ctx, bbox.left, y, bbox.left + bbox.width, y);
  }
  const resumes = new Set(prepared.flatMap((one) => one.resumes.map((resume) => resume.step)));
  for (const step of resumes) {
    const x = u.valToPos(step - 0.5, "x", true);
    if (x >= bbox.left && x <= bbox.left + bbox.width) line(ctx, x, bbox.top, x, bbox.top + bbox.height);
  }
  ctx.setLineDash([]);
  prepared.forEach((one, index) => {
    ctx.strokeStyle = ctx.fillStyle = color(curves[index]?.color ?? "--ink");
    for (const { step, kind } of one.edges) edgeMark(ctx, u.valToPos(step, "x", true), bbox, kind, 4 * ratio);
  });
  ctx.restore();
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

/** ▲ on the upper edge is +∞, ▼ on the lower −∞, × on the lower NaN. */
function edgeMark(ctx: CanvasRenderingContext2D, x: number, bbox: uPlot.BBox, kind: "nan" | "+inf" | "-inf", size: number): void {
  const top = bbox.top + size;
  const bottom = bbox.top + bbox.height - size;
  if (kind === "nan") {
    line(ctx, x - size, bottom - size, x + size, bottom + size);
    line(ctx, x - size, bottom + size, x + size, bottom - size);
    return;
  }
  const [base, tip] = kind === "+inf" ? [top + size, top - size] : [bottom - size, bottom + size];
  ctx.beginPath();
  ctx.moveTo(x - size, base);
  ctx.lineTo(x + size, base);
  ctx.lineTo(x, tip);
  ctx.fill();
}

function describe(index: number | null, { curves, prepared }: Latest, window: number): string {
  if (index === null) return "";
  const x = alignX([...prepared, ...prepared.map((one) => ({ x: one.ghosts.map((ghost) => ghost.step) }))]);
  const step = x[index];
  if (step === undefined) return "";
  const parts = prepared.map((one, at) => {
    const i = one.x.indexOf(step);
    if (i === -1) return null;
    const edge = one.edges.find((mark) => mark.step === step);
    const value = edge === undefined ? formatNumber(one.raw[i]) : edge.kind === "nan" ? "NaN" : edge.kind === "+inf" ? "+∞" : "−∞";
    const mean = window > 1 ? ` (mean ${formatNumber(one.mean[i])})` : "";
    return `${prepared.length > 1 ? `${curves[at]?.label ?? ""} ` : ""}${value}${mean}`;
  });
  return `step ${step}: ${parts.filter((part) => part !== null).join(", ")}`;
}

function summary(title: string, curves: readonly Curve[], prepared: readonly Prepared[]): string {
  const parts = prepared.map((one, index) => {
    const values = one.raw.filter((value) => value !== null);
    const name = prepared.length > 1 ? `${curves[index]?.label ?? ""}: ` : "";
    if (values.length === 0) return `${name}no finite points`;
    return `${name}${values.length} points, last ${formatNumber(values.at(-1))}, from ${formatNumber(Math.min(...values))} to ${formatNumber(Math.max(...values))}`;
  });
  return `${title}. ${parts.join("; ")}`;
}

function Twin({ curves, prepared, window }: { curves: readonly Curve[]; prepared: readonly Prepared[]; window: number }) {
  const steps = alignX(prepared).reverse();
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">step</th>
          {curves.map((curve) => (
            <th key={curve.label} scope="col">
              {curve.label}
            </th>
          ))}
          {window > 1 &&
            curves.map((curve) => (
              <th key={curve.label} scope="col">
                {window}-step mean
              </th>
            ))}
        </tr>
      </thead>
      <tbody>
        {steps.map((step) => (
          <tr key={step}>
            <td>{step}</td>
            {prepared.map((one, index) => {
              const i = one.x.indexOf(step);
              const edge = one.edges.find((mark) => mark.step === step)?.kind;
              return <td key={index}>{edge ?? formatNumber(i === -1 ? null : one.raw[i])}</td>;
            })}
            {window > 1 &&
              prepared.map((one, index) => <td key={index}>{formatNumber(one.mean[one.x.indexOf(step)])}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
