/** Where to look at what an event names. */
import type { RunEvent } from "../../api/types";

export type EventPlace = "steps" | "groups" | "engines" | "checkpoints" | "evals" | "failures" | "config" | "workers" | "step";

const BY_PREFIX: readonly (readonly [string, EventPlace])[] = [
  ["engine_", "engines"], ["weights_", "engines"], ["checkpoint", "checkpoints"], ["worker_", "workers"], ["groups_", "groups"], ["many_groups", "groups"],
  ["trainer_", "steps"], ["rolled_back", "steps"], ["step_", "steps"], ["run_queued", "config"], ["failure", "failures"], ["task_", "failures"],
];

export function eventPlace({ kind, sentence, data }: Pick<RunEvent, "kind" | "sentence" | "data">): EventPlace | null {
  if (typeof data.step === "number") return "step";
  if (kind.startsWith("stage_")) return sentence.startsWith("Evaluation") ? "evals" : null;
  return BY_PREFIX.find(([prefix]) => kind.startsWith(prefix))?.[1] ?? null;
}
