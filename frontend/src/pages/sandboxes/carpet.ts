/** The carpet that the server sends (a byte a cell, base64) → colours, runs of equal cells, and the table twin. */
import type { SandboxCarpet } from "../../api/types";

/** Tokens by stage; what is not here is not drawn. */
export const STAGE_COLOR: Record<string, string> = {
  queued: "--hairline-strong",
  starting: "--tone-running",
  ready: "--tone-solved",
  "in use": "--role-sandbox",
  verifying: "--tone-unsolved",
  stopping: "--ink-3",
  failed: "--tone-failed",
};

export function cellsOf(carpet: Pick<SandboxCarpet, "cells">): Uint8Array {
  const text = atob(carpet.cells);
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

export type Run = { from: number; to: number; code: number };

/** Of one row: stretches of equal cells, idle ones left out. */
export function runsOf(cells: Uint8Array, row: number, bins: number): Run[] {
  const runs: Run[] = [];
  for (let bin = 0; bin < bins; bin += 1) {
    const code = cells[row * bins + bin] ?? 0;
    const last = runs.at(-1);
    if (last?.code === code && last.to === bin) last.to = bin + 1;
    else if (code !== 0) runs.push({ from: bin, to: bin + 1, code });
  }
  return runs;
}

/** Slots in each stage, for `parts` equal parts of the time: the mean over the bins of a part. */
export function occupancy(cells: Uint8Array, slots: number, bins: number, numStages: number, parts = 24): number[][] {
  const count = Math.min(parts, bins);
  return Array.from({ length: count }, (_, part) => {
    const first = Math.floor((part * bins) / count);
    const last = Math.floor(((part + 1) * bins) / count);
    const sums = Array.from({ length: numStages }, () => 0);
    for (let row = 0; row < slots; row += 1) {
      for (let bin = first; bin < last; bin += 1) {
        const code = cells[row * bins + bin] ?? 0;
        sums[code] = (sums[code] ?? 0) + 1;
      }
    }
    return sums.map((sum) => sum / (last - first));
  });
}
