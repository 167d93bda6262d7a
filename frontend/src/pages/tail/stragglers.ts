/** The slowest trajectories of a step and what each of them waited for. Pure. */
import type { Tail, TailMember } from "../../api/tail";

export type Wait = { label: string; seconds: number };
export type Straggler = {
  id: number;
  task: string;
  outcome: TailMember["outcome"];
  numTurns: number;
  /** From the first time it was asked for to its last end, retries included. */
  seconds: number;
  /** The longest first. */
  waits: Wait[];
  repeat: TailMember["repeat"];
};

/** A command that makes up so much of the turns is a loop. */
const LOOP_SHARE = 1 / 3;
const ms = (iso: string) => Date.parse(iso);

export function stragglersOf({ groups }: Pick<Tail, "groups">, most: number): Straggler[] {
  const all = groups.flatMap((group) => group.members.map((member) => stragglerOf(member, group.task.key)));
  return all.filter(({ seconds }) => seconds > 0).sort((a, b) => b.seconds - a.seconds).slice(0, most);
}

function stragglerOf(member: TailMember, task: string): Straggler {
  const { attempts } = member;
  const ended = attempts.flatMap(({ finished_at }) => (finished_at === null ? [] : [ms(finished_at)]));
  const began = attempts.map(({ created_at }) => ms(created_at));
  const sum = (key: string) => attempts.reduce((total, { timings }) => total + (timings[key] ?? 0), 0);
  const engineQueue = attempts.reduce((total, { queue_s }) => total + (queue_s ?? 0), 0);
  const workerQueue = attempts.reduce((total, { created_at, started_at }) => total + (started_at === null ? 0 : Math.max(0, ms(started_at) - ms(created_at)) / 1000), 0);
  const failed = attempts.filter(({ status }) => status === "failed").reduce((total, { started_at, finished_at }) => total + (started_at === null || finished_at === null ? 0 : (ms(finished_at) - ms(started_at)) / 1000), 0);
  const waits = [
    { label: "LLM", seconds: Math.max(0, sum("llm") - engineQueue) },
    { label: "engine queue", seconds: engineQueue },
    { label: "shell", seconds: sum("exec") },
    { label: "tests", seconds: sum("verify") },
    { label: "start, setup", seconds: sum("start") + sum("setup") },
    { label: "worker queue", seconds: workerQueue },
    { label: "failed attempts", seconds: failed },
  ].filter(({ seconds }) => seconds > 0).sort((a, b) => b.seconds - a.seconds);
  return {
    id: member.id, task, outcome: member.outcome, numTurns: member.num_turns, repeat: member.repeat, waits,
    seconds: ended.length === 0 ? 0 : Math.max(0, Math.max(...ended) - Math.min(...began)) / 1000,
  };
}

/** What to look at first: a loop where one command was repeated for a third of the turns, else the longest wait. */
export function causeOf({ repeat, numTurns, waits }: Pick<Straggler, "repeat" | "numTurns" | "waits">): string {
  if (repeat !== null && repeat.count >= numTurns * LOOP_SHARE) return `loop: one command ${repeat.count} times`;
  return waits[0]?.label ?? "";
}
