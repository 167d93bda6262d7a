/** Prepared series → what uPlot takes: one x for all, columns per curve, the range of the value axis. */
import type uPlot from "uplot";

import { quantile } from "../lib/quantiles";
import { alignX, onto, type Prepared } from "../lib/series";

export const Y_SCALES = ["linear", "log", "symlog"] as const;
export const Y_SCALE_LABEL = { linear: "Linear", log: "Logarithmic", symlog: "Symmetric log" };
export type YScale = (typeof Y_SCALES)[number];
export type ColumnKind = "dots" | "line" | "ghosts" | "low" | "high";

/** The columns of each curve, in the order they are drawn. */
export function columnsOf(hasEnvelope: boolean): ColumnKind[] {
  return hasEnvelope ? ["low", "high", "dots", "line", "ghosts"] : ["dots", "line", "ghosts"];
}

type Choice = { isSmoothed: boolean; hasGhosts: boolean; hasDots: boolean; scale: YScale };

export function plotData(prepared: readonly Prepared[], { isSmoothed, hasGhosts, hasDots, scale }: Choice): uPlot.AlignedData {
  const hasEnvelope = prepared.some((one) => one.envelope !== undefined);
  const ghostsOf = (one: Prepared) => (hasGhosts ? one.ghosts : []);
  const x = alignX([...prepared, ...prepared.map((one) => ({ x: ghostsOf(one).map((ghost) => ghost.x) }))]);
  const place = (from: readonly number[], values: readonly (number | null)[]) => onto(x, from, onScale(values, scale));
  const none = x.map(() => null);
  const columns = prepared.flatMap((one) => {
    const ghosts = ghostsOf(one);
    const cells: Record<ColumnKind, (number | null)[]> = {
      low: one.envelope === undefined ? none : place(one.x, one.envelope.low),
      high: one.envelope === undefined ? none : place(one.x, one.envelope.high),
      // Under an envelope the last value of each bucket would be one dot of many.
      dots: hasDots && isSmoothed && one.envelope === undefined ? place(one.x, one.raw) : none,
      line: place(one.x, isSmoothed ? one.mean : one.raw),
      ghosts: place(ghosts.map((ghost) => ghost.x), ghosts.map((ghost) => ghost.value)),
    };
    return columnsOf(hasEnvelope).map((kind) => cells[kind]);
  });
  return [x, ...columns];
}

/** A logarithm knows no zero and no negative value: they are marks on the lower edge instead. */
function onScale(values: readonly (number | null)[], scale: YScale): readonly (number | null)[] {
  return scale === "log" ? values.map((value) => (value !== null && value > 0 ? value : null)) : values;
}

/** Where symlog turns from linear to logarithmic: the power of ten below the median size. */
export function asinhThreshold(prepared: readonly Prepared[]): number {
  const sizes = prepared.flatMap((one) => one.raw.flatMap((value) => (value === null || value === 0 ? [] : [Math.abs(value)])));
  const median = quantile(sizes, 0.5);
  return median === null ? 1 : 10 ** Math.floor(Math.log10(median));
}

type View = {
  references: readonly { value: number }[];
  range: { min?: number; max?: number };
  clip: [number, number] | null;
  scale: YScale;
};

const PAD = 0.08;

/** The value axis: what is drawn with some room, the references, the given ends; or the clip and no more. */
export function yRange(min: number | null, max: number | null, { references, range, clip, scale }: View): [number, number] {
  if (clip !== null && (scale !== "log" || clip[0] > 0)) return padded(clip[0], clip[1], scale, {});
  const all = [...references.map((reference) => reference.value), min, max, range.min, range.max].filter(
    (value): value is number => value != null && Number.isFinite(value) && (scale !== "log" || value > 0),
  );
  if (all.length === 0) return scale === "log" ? [0.1, 10] : [0, 1];
  return padded(Math.min(...all), Math.max(...all), scale, range);
}

function padded(low: number, high: number, scale: YScale, range: { min?: number; max?: number }): [number, number] {
  if (scale === "log") return low === high ? [low / 2, high * 2] : [low * (low / high) ** PAD, high * (high / low) ** PAD];
  const room = low === high ? (Math.abs(low) || 1) * 0.5 : (high - low) * PAD;
  const isAtMin = range.min !== undefined && low >= range.min && low - room < range.min;
  const isAtMax = range.max !== undefined && high <= range.max && high + room > range.max;
  return [isAtMin ? (range.min ?? low) : low - room, isAtMax ? (range.max ?? high) : high + room];
}
