/** What a cap on turns, tokens or seconds would have done to trajectories that were recorded without it. */

export const CAPS = ["turns", "tokens", "seconds"] as const;
export type Cap = (typeof CAPS)[number];

/** A trajectory a place. outcome: 0 invalid, 1 unsolved, 2 solved. */
export type Recorded = { outcome: readonly number[] } & Record<Cap, readonly number[]>;

export type CapEffect = {
  count: number;
  valid: number;
  solved: number;
  hours: number;
  /** Trajectories that had gone on beyond the cap. */
  cut: number;
  hoursSaved: number;
  solvedLost: number;
};

/**
 * A trajectory beyond the cap ends at it and scores 0. Under a cap of turns or tokens it keeps the share of its seconds that it had
 * used by then, as if each turn, or token, had taken as long as any other.
 */
export function effectOf(recorded: Recorded, cap: Cap, at: number): CapEffect {
  const effect: CapEffect = { count: recorded.outcome.length, valid: 0, solved: 0, hours: 0, cut: 0, hoursSaved: 0, solvedLost: 0 };
  let total = 0;
  let saved = 0;
  recorded.outcome.forEach((outcome, index) => {
    const value = recorded[cap][index] ?? 0;
    const seconds = recorded.seconds[index] ?? 0;
    total += seconds;
    if (outcome > 0) effect.valid += 1;
    if (outcome === 2) effect.solved += 1;
    if (value <= at) return;
    effect.cut += 1;
    saved += seconds * (1 - at / value);
    if (outcome === 2) effect.solvedLost += 1;
  });
  return { ...effect, hours: total / 3600, hoursSaved: saved / 3600 };
}

/** A round value at or above the largest one: where the slider ends. */
export function ceilingOf(values: readonly number[]): number {
  const most = values.reduce((largest, value) => Math.max(largest, value), 1);
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(most)) - 1);
  return Math.ceil(most / unit) * unit;
}
