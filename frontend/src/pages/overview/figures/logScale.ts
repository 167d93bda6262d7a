export type LogScale = { ticks: number[]; place: (value: number) => number };

/** A logarithmic axis over whole decades that hold every positive value; what is not positive lies on its left end. */
export function logScale(values: readonly number[]): LogScale {
  const positive = values.filter((value) => value > 0);
  const low = positive.length === 0 ? -1 : Math.floor(Math.log10(Math.min(...positive)));
  const high = Math.max(low + 1, positive.length === 0 ? 0 : Math.ceil(Math.log10(Math.max(...positive))));
  return {
    ticks: Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index)),
    place: (value) => (value <= 0 ? 0 : Math.max(0, Math.min(1, (Math.log10(value) - low) / (high - low)))),
  };
}
