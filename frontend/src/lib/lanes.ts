/** The geometry and the pixels of lanes: bars of many things on one axis of time. */

export type Segment = { from: number; to: number; color: string; label: string; isHatched?: boolean };
export type Layout = { rowPx: number; tops: number[]; headings: { top: number; text: string }[]; height: number };

const HEADING_PX = 20;
const GAP_PX = 3;
/** More lanes than this are too many to read one by one: they become a carpet. */
export const CARPET = 150;

/** Where each lane lies: rows as high as their number allows, a heading or a gap where a group begins. */
export function layoutOf(groups: readonly (string | undefined)[]): Layout {
  const count = groups.length;
  const rowPx = count > CARPET ? Math.max(1, Math.floor(520 / count)) : count > 64 ? 8 : count > 24 ? 12 : 18;
  const isCarpet = count > CARPET;
  const tops: number[] = [];
  const headings: Layout["headings"] = [];
  let y = 0;
  groups.forEach((group, index) => {
    if (group !== undefined && group !== groups[index - 1]) {
      if (!isCarpet) {
        headings.push({ top: y, text: group });
        y += HEADING_PX;
      } else if (index > 0) y += GAP_PX;
    }
    tops.push(y);
    y += rowPx;
  });
  return { rowPx, tops, headings, height: y };
}

/** The lane at a height, or none between groups. */
export function laneAt({ tops, rowPx }: Layout, y: number): number | undefined {
  const index = tops.findLastIndex((top) => top <= y);
  return index >= 0 && y < (tops[index] ?? 0) + rowPx ? index : undefined;
}

/** The last drawn segment at a time: later ones lie on top. */
export function segmentAt(segments: readonly Segment[], at: number): Segment | undefined {
  return segments.findLast((segment) => segment.from <= at && at <= segment.to);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/** At most `most` round values from `from` to `to`: seconds, minutes, hours. */
export function timeTicks(from: number, to: number, most: number): number[] {
  const least = (to - from) / Math.max(1, most);
  const decade = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  const step = least > 1 ? (STEPS.find((one) => one >= least) ?? Math.ceil(least / 86_400) * 86_400) : ([1, 2, 5, 10].find((one) => one * decade >= least) ?? 10) * decade;
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - first + 1) }, (_, index) => (first + index) * step);
}

type Box = { top: number; height: number };
type Bar = Pick<Segment, "from" | "to" | "isHatched"> & { rgba: number };

/**
 * Fills the rows of one lane, in device pixels. Writing pixels costs a fraction of a rectangle each: 384 lanes of 142 segments
 * are 55,000 rectangles.
 *
 * A segment is at least a pixel wide. A hatched one lets the paper through.
 */
export function paintLane(pixels: Uint32Array, width: number, { top, height }: Box, from: number, to: number, bars: readonly Bar[]): void {
  const scale = width / (to - from);
  const row = top * width;
  let hasHatch = false;
  for (const bar of bars) {
    const start = Math.max(0, Math.round((bar.from - from) * scale));
    const end = Math.min(width, Math.max(start + 1, Math.round((bar.to - from) * scale)));
    if (end <= 0 || start >= width) continue;
    if (bar.isHatched === true) hasHatch = true;
    else pixels.fill(bar.rgba, row + start, row + end);
  }
  for (let y = 1; y < height; y += 1) pixels.copyWithin(row + y * width, row, row + width);
  if (!hasHatch) return;
  for (const bar of bars) {
    if (bar.isHatched !== true) continue;
    const start = Math.max(0, Math.round((bar.from - from) * scale));
    const end = Math.min(width, Math.max(start + 1, Math.round((bar.to - from) * scale)));
    for (let y = 0; y < height; y += 1) {
      for (let x = start; x < end; x += 1) pixels[row + y * width + x] = (x + y) % 6 < 3 ? bar.rgba : 0;
    }
  }
}
