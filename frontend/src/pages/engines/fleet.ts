/** Figures of several engines: the mean with the largest, because one saturated engine hides in a mean. */
import type { Engine } from "../../api/types";

export type Spread = { mean: number; max: number; at: Engine; num: number };

/** Over the engines that say it; null when none does. */
export function spread(engines: readonly Engine[], value: (engine: Engine) => number | null | undefined): Spread | null {
  let sum = 0;
  let num = 0;
  let found: Spread | null = null;
  for (const engine of engines) {
    const said = value(engine);
    if (said == null) continue;
    sum += said;
    num += 1;
    if (found === null || said > found.max) found = { mean: 0, max: said, at: engine, num: 0 };
  }
  return found === null ? null : { ...found, mean: sum / num, num };
}

const TAKES_TRAFFIC = new Set<Engine["status"]>(["serving", "paused", "syncing"]);

export function liveEngines(engines: readonly Engine[]): Engine[] {
  return engines.filter((engine) => TAKES_TRAFFIC.has(engine.status));
}

/** Different versions among the live engines of one run: while they differ, so do the policies that write. */
export function skewSentence(engines: readonly Engine[]): string | null {
  const byRun = new Map<number, Engine[]>();
  for (const engine of liveEngines(engines)) byRun.set(engine.run, [...(byRun.get(engine.run) ?? []), engine]);
  const sentences = [...byRun].flatMap(([run, own]) => {
    const behind = own.filter((engine) => (engine.version_skew ?? 0) > 0);
    if (behind.length === 0) return [];
    const most = Math.max(...behind.map((engine) => engine.version_skew ?? 0));
    return [`run ${run}: ${behind.length} of ${own.length} engines are behind the newest weights, by up to ${most} ${most === 1 ? "version" : "versions"}`];
  });
  return sentences.length === 0 ? null : sentences.join("; ");
}
