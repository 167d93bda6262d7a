/**
 * Points of a metric → what a chart draws.
 *
 * A point is stamped (resume, step). The effective history takes the highest resume of each step; the points
 * of lower resumes at or after the step where a later resume began are superseded and become ghosts.
 */

import { quantile } from "./quantiles";

export type Point = { resume: number; step: number; value: number };

export type EdgeKind = "nan" | "+inf" | "-inf";

export type Prepared = {
  /** Ascending places on the x axis (steps, unless said otherwise) with a finite or non-finite effective value. */
  x: number[];
  /** Finite effective values; null where the value was not finite. Of a bucket: its last. */
  raw: (number | null)[];
  /** The smoothed effective history: by default the trailing mean over the last `window` finite values. */
  mean: (number | null)[];
  /** Lowest and highest of each bucket; absent where every point is its own. */
  envelope?: { low: (number | null)[]; high: (number | null)[] };
  /** Values that no axis can hold. They are drawn on its edge, never dropped. */
  edges: { x: number; kind: EdgeKind }[];
  ghosts: { x: number; value: number }[];
  /** Where each later life of the trainer began. */
  resumes: { resume: number; x: number; note?: string }[];
};

export function prepareSeries(points: readonly Point[], window = 10): Prepared {
  const effective = new Map<number, Point>();
  const firstStep = new Map<number, number>();
  for (const point of points) {
    const known = effective.get(point.step);
    if (known === undefined || point.resume >= known.resume) effective.set(point.step, point);
    const first = firstStep.get(point.resume);
    if (first === undefined || point.step < first) firstStep.set(point.resume, point.step);
  }

  const lives = [...firstStep].sort(([a], [b]) => a - b);
  /** The last life of the trainer that has reached back to this step wins over all earlier ones. */
  const isSuperseded = (point: Point) =>
    lives.some(([resume, first]) => resume > point.resume && first <= point.step);

  const steps = [...effective.values()].filter((point) => !isSuperseded(point)).sort((a, b) => a.step - b.step);
  const raw = steps.map((point) => (Number.isFinite(point.value) ? point.value : null));
  const lowest = lives[0]?.[0];
  return {
    x: steps.map((point) => point.step),
    raw,
    mean: trailingMean(raw, window),
    edges: steps.flatMap(({ step, value }) =>
      Number.isFinite(value) ? [] : [{ x: step, kind: Number.isNaN(value) ? "nan" : value > 0 ? "+inf" : "-inf" } as const],
    ),
    ghosts: points
      .filter((point) => isSuperseded(point) && Number.isFinite(point.value))
      .map(({ step, value }) => ({ x: step, value })),
    resumes: lives.flatMap(([resume, step]) => (resume === lowest ? [] : [{ resume, x: step }])),
  };
}

/** Mean of the last `window` values that exist; null where the value itself is absent. */
export function trailingMean(values: readonly (number | null)[], window: number): (number | null)[] {
  const recent: number[] = [];
  let sum = 0;
  return values.map((value) => {
    if (value === null) return null;
    recent.push(value);
    sum += value;
    if (recent.length > window) sum -= recent.shift() ?? 0;
    return sum / recent.length;
  });
}

/** Several series on one ascending x; null where a series has no value. */
export function alignX(series: readonly { x: readonly number[] }[]): number[] {
  return [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
}

export function onto(x: readonly number[], from: readonly number[], values: readonly (number | null)[]): (number | null)[] {
  const at = new Map(from.map((step, index) => [step, values[index] ?? null]));
  return x.map((step) => at.get(step) ?? null);
}

/** p1 to p99 of what is finite: the window that one wild value cannot blow up. Null when it has no width. */
export function centralRange(series: readonly Pick<Prepared, "raw">[]): [number, number] | null {
  const values = series.flatMap((one) => one.raw.filter((value) => value !== null));
  const low = quantile(values, 0.01);
  const high = quantile(values, 0.99);
  return low === null || high === null || low === high ? null : [low, high];
}

/** JSON has no NaN: the API sends these as text (or as null, when it does not know which). */
export function readValue(value: number | string | null): number {
  if (typeof value === "number") return value;
  if (value === "Infinity" || value === "inf" || value === "+inf") return Infinity;
  if (value === "-Infinity" || value === "-inf") return -Infinity;
  return NaN;
}
