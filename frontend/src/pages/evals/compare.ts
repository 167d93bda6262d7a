/** Words and choices of a comparison of evaluations. Pure. */
import type { Comparison, EvalArm } from "../../api/types";

export type Shown = "differ" | "wins" | "losses";
export type ComparedTask = Comparison["tasks"][number];
export type Pair = Comparison["pairs"][number];

export function armName(arm: Pick<EvalArm, "run" | "run_name" | "stage">): string {
  return `${arm.run_name} · ${arm.stage}`;
}

/** Short names that still tell the arms apart: the run is left out where all are of one. */
export function armNames(arms: readonly EvalArm[]): string[] {
  const isOneRun = new Set(arms.map((arm) => arm.run)).size === 1;
  const names = arms.map((arm) => (isOneRun ? arm.stage : armName(arm)));
  return names.map((name, i) => (names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (run ${arms[i]?.run ?? ""})`));
}

/** A share of attempts, an invalid one as unsolved. */
export function meanOf(attempts: readonly (number | null)[]): number {
  return attempts.reduce<number>((sum, reward) => sum + (reward ?? 0), 0) / attempts.length;
}

/** Last arm minus first, in share of attempts. */
export function gain(task: ComparedTask): number {
  const first = task.attempts[0];
  const last = task.attempts.at(-1);
  return first === undefined || last === undefined ? 0 : meanOf(last) - meanOf(first);
}

export function shownTasks(tasks: readonly ComparedTask[], show: Shown | undefined): ComparedTask[] {
  switch (show) {
    case "wins":
      return tasks.filter((task) => gain(task) > 0);
    case "losses":
      return tasks.filter((task) => gain(task) < 0);
    case "differ":
      return tasks.filter((task) => new Set(task.attempts.map(meanOf)).size > 1);
    case undefined:
      return [...tasks];
  }
}

/** "+15.3": in points of the solve rate. */
export function points(share: number): string {
  return `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)}`;
}

export function pValue(p: number): string {
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}
