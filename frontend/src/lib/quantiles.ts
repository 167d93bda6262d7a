/** Means and quantiles of plain numbers. */

export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Linear between the two nearest ranks, as numpy's default; null of nothing. */
export function quantile(values: readonly number[], share: number): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const low = Math.floor(place);
  const before = sorted[low] ?? 0;
  return before + ((sorted[low + 1] ?? before) - before) * (place - low);
}

/** Share of the time until the last one that came after 90 % had ended (article, figure 5). */
export function tailShare(durations: readonly number[]): number | null {
  const sorted = [...durations].sort((a, b) => a - b);
  const last = sorted.at(-1);
  if (last === undefined || last <= 0) return null;
  return (last - (sorted[Math.ceil(0.9 * sorted.length) - 1] ?? last)) / last;
}
