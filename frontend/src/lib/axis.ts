/** The x axes of curves: the same words as the REST query `x`. */
import { formatDuration, formatStamp, formatTick, type Zone } from "./format";

export const X_AXES = ["step", "wall", "elapsed", "active_elapsed", "trajectories", "tokens"] as const;
export type XAxis = (typeof X_AXES)[number];

export const X_LABEL: Record<XAxis, string> = {
  step: "Step",
  wall: "Wall clock",
  elapsed: "Elapsed",
  active_elapsed: "Active elapsed",
  trajectories: "Trajectories consumed",
  tokens: "Tokens trained",
};

/** What the axis counts, for a table's header. */
export const X_UNIT: Record<XAxis, string> = {
  step: "step",
  wall: "time",
  elapsed: "elapsed",
  active_elapsed: "active elapsed",
  trajectories: "trajectories",
  tokens: "tokens",
};

/** A place on the axis, whole: "step 61", "1 h 12 m", "12,416 tokens". */
export function formatX(axis: XAxis, value: number, zone: Zone = "local"): string {
  switch (axis) {
    case "step":
      return `step ${formatTick(value)}`;
    case "wall":
      return formatStamp(new Date(value * 1000).toISOString(), zone);
    case "elapsed":
    case "active_elapsed":
      return formatDuration(value);
    case "trajectories":
    case "tokens":
      return `${Math.round(value).toLocaleString("en-GB")} ${X_UNIT[axis]}`;
  }
}

const SI = [
  { size: 1e9, letter: "G" },
  { size: 1e6, letter: "M" },
  { size: 1e3, letter: "k" },
];

/** A tick of the axis; short, because many stand in a row. Wall-clock ticks are the plot's own. */
export function formatXTick(axis: XAxis, value: number): string {
  if (axis === "elapsed" || axis === "active_elapsed") return formatDuration(value).replace(/ 0 [sm]$/, "");
  const unit = SI.find(({ size }) => Math.abs(value) >= Math.max(size, 1e4));
  return unit === undefined ? formatTick(value) : `${formatTick(value / unit.size)}${unit.letter}`;
}

/** Distances between ticks that read well on the axis. */
export function increments(axis: XAxis): number[] | undefined {
  switch (axis) {
    case "wall":
      return undefined;
    case "elapsed":
    case "active_elapsed":
      return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];
    default:
      return [1, 2, 5].flatMap((digit) => Array.from({ length: 12 }, (_, power) => digit * 10 ** power)).sort((a, b) => a - b);
  }
}
