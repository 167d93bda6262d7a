/** Where the time of an attempt went, as bars on one axis of seconds from its start. */
import type { Attempt } from "../api/types";
import type { Segment } from "./lanes";
import type { OutlineTurn } from "./outline";

export const STAGE_COLORS = {
  queue: "--role-other", start: "--role-sandbox", setup: "--role-sandbox", llm: "--role-llm", exec: "--role-sandbox", idle: "--role-other",
  verify: "--tone-unsolved", teardown: "--role-other",
} as const;

/** Shorter gaps are the machinery between two calls, not idleness. */
const IDLE_S = 0.05;

/** One turn: its wait in the engine's queue, the model, the command. */
export function turnSegments(turn: OutlineTurn): Segment[] {
  const queue = Math.min(turn.queue_s ?? 0, turn.llm_s);
  const begin = turn.offset_s;
  const answered = begin + turn.llm_s;
  return [
    { from: begin, to: begin + queue, color: STAGE_COLORS.queue, label: "LLM queue", isHatched: true },
    { from: begin + queue, to: answered, color: STAGE_COLORS.llm, label: "LLM generate" },
    { from: answered, to: answered + turn.exec_s, color: STAGE_COLORS.exec, label: "command" },
  ].filter((segment) => segment.to > segment.from);
}

/** The whole attempt on one lane; what no stage explains is idle, and shown. */
export function attemptSegments(attempt: Attempt, turns: readonly OutlineTurn[]): Segment[] {
  const { timings } = attempt;
  const segments: Segment[] = [];
  let at = 0;
  const add = (seconds: number | undefined, color: string, label: string, isHatched = false) => {
    if (seconds === undefined || seconds <= 0) return;
    segments.push({ from: at, to: at + seconds, color, label, ...(isHatched ? { isHatched } : {}) });
    at += seconds;
  };
  add(timings.start, STAGE_COLORS.start, "start");
  add(timings.setup, STAGE_COLORS.setup, "setup");
  for (const turn of turns) {
    if (turn.offset_s - at > IDLE_S) add(turn.offset_s - at, STAGE_COLORS.idle, "idle", true);
    at = Math.max(at, turn.offset_s);
    segments.push(...turnSegments(turn));
    at = Math.max(at, turn.offset_s + turn.llm_s + turn.exec_s);
  }
  add(timings.verify, STAGE_COLORS.verify, "verify");
  add(timings.teardown, STAGE_COLORS.teardown, "teardown");
  if (attempt.started_at !== null && attempt.finished_at !== null) {
    const end = (Date.parse(attempt.finished_at) - Date.parse(attempt.started_at)) / 1000;
    if (end - at > IDLE_S) add(end - at, STAGE_COLORS.idle, "idle", true);
  }
  return segments;
}

/** Seconds that no stage explains. */
export function idleSeconds(segments: readonly Segment[]): number {
  return segments.reduce((sum, { label, from, to }) => (label === "idle" ? sum + to - from : sum), 0);
}

/** A sibling by its stages in order: how it spent its time, not when each turn was. */
export function stageSegments(timings: Record<string, number>, from: number, elapsed: number): Segment[] {
  const segments: Segment[] = [];
  let at = from;
  for (const [stage, label] of [["start", "start"], ["setup", "setup"], ["llm", "LLM"], ["exec", "commands"], ["verify", "verify"], ["teardown", "teardown"]] as const) {
    const seconds = timings[stage] ?? 0;
    if (seconds > 0) segments.push({ from: at, to: at + seconds, color: STAGE_COLORS[stage], label });
    at += seconds;
  }
  const rest = from + elapsed - at;
  if (rest > IDLE_S) segments.push({ from: at, to: at + rest, color: STAGE_COLORS.idle, label: "between stages", isHatched: true });
  return segments;
}
