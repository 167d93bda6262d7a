/** How near a limit is to its cap. */
import type { Limit } from "../../api/types";

export type Usage = { share: number | null; peak: number | null; state: "free" | "near" | "full" | "unmeasured" | "uncapped" };

/** From here on a limit is near: a little more and somebody waits. */
export const NEAR = 0.8;

export function usageOf({ configured, measured, peak }: Pick<Limit, "configured" | "measured" | "peak">): Usage {
  if (measured === null) return { share: null, peak: null, state: "unmeasured" };
  if (configured === null) return { share: null, peak: null, state: "uncapped" };
  const share = configured === 0 ? (measured > 0 ? Infinity : 0) : measured / configured;
  return {
    share,
    peak: peak === null || configured === 0 ? null : peak / configured,
    state: share >= 1 ? "full" : share >= NEAR ? "near" : "free",
  };
}

/** The limit that is used most, if any is used at all. */
export function nearest(limits: readonly Limit[]): Limit | null {
  const used = limits.filter((limit) => (usageOf(limit).share ?? 0) > 0);
  return used.length === 0 ? null : used.reduce((most, limit) => ((usageOf(limit).share ?? 0) > (usageOf(most).share ?? 0) ? limit : most));
}
