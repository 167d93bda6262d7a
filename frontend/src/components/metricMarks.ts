/** What uPlot does not draw: lines to compare with, resumes, and marks for what the value axis cannot hold. */
import type uPlot from "uplot";

import { formatNumber } from "../lib/format";
import type { EdgeKind, Prepared } from "../lib/series";
import type { CanvasProps } from "./MetricCanvas";

/** Labels of off-scale values closer than this would lie on each other. */
const LABEL_PX = 40;
/** Shapes that name a curve stand this far apart. */
const MARKER_PX = 90;

type Drawn = Pick<CanvasProps, "curves" | "references" | "thresholds" | "isSmoothed" | "hasDots">;

export function drawMarks(u: uPlot, { curves, references, thresholds, isSmoothed, hasDots }: Drawn, color: (name: string) => string): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${10 * ratio}px "Inter Variable", sans-serif`;
  ctx.lineWidth = ratio;
  ctx.strokeStyle = ctx.fillStyle = color("--ink-3");
  for (const { value } of references) levelLine(u, value);
  for (const { label, value } of thresholds) threshold(u, label, value, ratio);
  for (const { prepared, color: name } of curves) {
    // Of several runs each resume is its own run's; of one run the curves share them.
    if (curves.some((curve) => curve.marker !== undefined)) ctx.strokeStyle = color(name);
    for (const { x } of prepared.resumes) resumeLine(u, x, ratio);
  }
  ctx.setLineDash([]);
  for (const { prepared, color: name, marker } of curves) {
    ctx.strokeStyle = ctx.fillStyle = color(name);
    for (const { x, kind } of prepared.edges) if (isInside(u, x)) edgeMark(u, u.valToPos(x, "x", true), kind, 4 * ratio);
    const line = isSmoothed ? prepared.mean : prepared.raw;
    offScale(u, hasDots ? prepared : { x: prepared.x, raw: line }, ratio);
    if (marker !== undefined) shapes(u, prepared.x, line, new Path2D(marker), ratio);
  }
  ctx.restore();
}

function isInside(u: uPlot, x: number): boolean {
  const { min, max } = u.scales.x ?? {};
  return min != null && max != null && x >= min && x <= max;
}

function dashed(u: uPlot): void {
  u.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
}

function levelLine(u: uPlot, value: number): void {
  const { left, top, width, height } = u.bbox;
  const y = u.valToPos(value, "y", true);
  if (!(y >= top && y <= top + height)) return;
  dashed(u);
  line(u.ctx, left, y, left + width, y);
}

/** A threshold does not stretch the axis; one that lies outside is named on the edge it lies behind. */
function threshold(u: uPlot, label: string, value: number, ratio: number): void {
  const { left, top, width, height } = u.bbox;
  const y = u.valToPos(value, "y", true);
  const isAbove = y < top;
  const isBelow = y > top + height;
  levelLine(u, value);
  const { ctx } = u;
  // Off the axis it stands apart from the newest points, whose own marks are on the right.
  const isOutside = isAbove || isBelow;
  ctx.textAlign = isOutside ? "left" : "right";
  ctx.textBaseline = isAbove ? "top" : "bottom";
  const text = `${label} ${formatNumber(value)}${isAbove ? " ↑" : isBelow ? " ↓" : ""}`;
  ctx.fillText(text, isOutside ? left + 2 * ratio : left + width - 2 * ratio, isAbove ? top : Math.min(Math.max(y - 2 * ratio, top + 10 * ratio), top + height));
}

function resumeLine(u: uPlot, x: number, ratio: number): void {
  if (!isInside(u, x)) return;
  const { top, height } = u.bbox;
  // On a whole-numbered axis the line stands between the last kept step and the first of the new life.
  const at = u.valToPos(x, "x", true) - 2 * ratio;
  dashed(u);
  line(u.ctx, at, top, at, top + height);
}

/** A triangle on the edge behind which the value lies, with the value where there is room for it. */
function offScale(u: uPlot, { x: xs, raw, envelope }: Pick<Prepared, "x" | "raw" | "envelope">, ratio: number): void {
  const { ctx, bbox } = u;
  const { min, max } = u.scales.y ?? {};
  if (min == null || max == null) return;
  let labelled = -Infinity;
  const mark = (x: number, value: number) => {
    const isAbove = value > max;
    const at = u.valToPos(x, "x", true);
    triangle(ctx, at, isAbove ? bbox.top : bbox.top + bbox.height, isAbove ? 1 : -1, 4 * ratio);
    if (at - labelled < LABEL_PX * ratio) return;
    labelled = at;
    const isRight = at > bbox.left + bbox.width - LABEL_PX * ratio;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.textBaseline = isAbove ? "top" : "bottom";
    ctx.fillText(formatNumber(value), at + (isRight ? -6 : 6) * ratio, isAbove ? bbox.top : bbox.top + bbox.height);
  };
  xs.forEach((x, index) => {
    if (!isInside(u, x)) return;
    const high = envelope?.high[index] ?? raw[index];
    const low = envelope?.low[index] ?? raw[index];
    if (high != null && high > max) mark(x, high);
    else if (low != null && low < min) mark(x, low);
  });
}

function shapes(u: uPlot, xs: readonly number[], values: readonly (number | null)[], shape: Path2D, ratio: number): void {
  const { ctx } = u;
  let before = -Infinity;
  xs.forEach((x, index) => {
    const value = values[index];
    if (value == null || !isInside(u, x)) return;
    const at = u.valToPos(x, "x", true);
    if (at - before < MARKER_PX * ratio) return;
    before = at;
    ctx.save();
    ctx.translate(at, u.valToPos(value, "y", true));
    ctx.scale(ratio, ratio);
    ctx.fill(shape);
    ctx.restore();
  });
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

/** Pointing away from the plot: `direction` 1 has its tip up. */
function triangle(ctx: CanvasRenderingContext2D, x: number, tip: number, direction: 1 | -1, size: number): void {
  ctx.beginPath();
  ctx.moveTo(x - size, tip + direction * 2 * size);
  ctx.lineTo(x + size, tip + direction * 2 * size);
  ctx.lineTo(x, tip);
  ctx.fill();
}

/** ▲ on the upper edge is +∞, ▼ on the lower −∞, × on the lower NaN. */
function edgeMark({ ctx, bbox }: uPlot, x: number, kind: EdgeKind, size: number): void {
  if (kind === "nan") {
    const y = bbox.top + bbox.height - size;
    line(ctx, x - size, y - size, x + size, y + size);
    line(ctx, x - size, y + size, x + size, y - size);
    return;
  }
  triangle(ctx, x, kind === "+inf" ? bbox.top : bbox.top + bbox.height, kind === "+inf" ? 1 : -1, size);
}
