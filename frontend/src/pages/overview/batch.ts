/** A step's batch as lanes on one axis of time, and as durations. Pure. */
import type { BatchMember, StepDetail, BatchGroup } from "../../api/types";
import type { Lane } from "../../components/Lanes";
import { formatCount } from "../../lib/format";
import type { Segment } from "../../lib/lanes";
import { OUTCOME, outcomeOf } from "../../lib/status";

export type Batch = { lanes: Lane[]; from: number; to: number; consumedAt: number | null };

const PARTS = [
  { keys: ["start", "setup"], label: "start, setup", color: "--role-sandbox" },
  { keys: ["llm"], label: "LLM", color: "--role-llm" },
  { keys: ["exec"], label: "shell", color: "--role-rollout" },
  { keys: ["verify"], label: "tests", color: "--tone-solved" },
  { keys: ["teardown"], label: "teardown", color: "--role-other" },
] as const;

const seconds = (iso: string) => Date.parse(iso) / 1000;

/** The groups whose slowest member took longest come first; a group's own members in their order. */
export function batchOf(step: Pick<StepDetail, "groups" | "started_at" | "wait_s">, maxGroups = Infinity): Batch {
  const groups = [...step.groups].sort((a, b) => longest(b) - longest(a)).slice(0, maxGroups);
  const starts = groups.flatMap(({ members }) => members.flatMap(({ attempts }) => attempts.flatMap(({ started_at }) => (started_at === null ? [] : [seconds(started_at)]))));
  const zero = Math.min(...starts);
  if (!Number.isFinite(zero)) return { lanes: [], from: 0, to: 1, consumedAt: null };
  const lanes = groups.flatMap((group) => group.members.map((member) => laneOf(member, group, zero)));
  const consumedAt = seconds(step.started_at) + step.wait_s - zero;
  const to = Math.max(consumedAt, ...lanes.flatMap(({ segments }) => segments.map((segment) => segment.to)));
  return { lanes, from: 0, to, consumedAt };
}

function laneOf(member: BatchMember, group: BatchGroup, zero: number): Lane {
  const outcome = outcomeOf(member);
  return {
    key: member.id,
    label: `${member.index + 1}`,
    group: group.task.key,
    note: `${OUTCOME[outcome].label.toLowerCase()} · ${formatCount(member.num_turns)} turns`,
    tone: OUTCOME[outcome].tone,
    segments: member.attempts.flatMap((attempt) => segmentsOf(attempt, zero)),
  };
}

/** In the order of the life cycle: LLM and shell take turns, so each of their bars is a sum. */
function segmentsOf({ status, started_at, finished_at, timings }: BatchMember["attempts"][number], zero: number): Segment[] {
  if (started_at === null) return [];
  let at = seconds(started_at) - zero;
  if (status === "failed" && finished_at !== null) {
    return [{ from: at, to: seconds(finished_at) - zero, color: "--tone-invalid", label: "failed attempt", isHatched: true }];
  }
  return PARTS.flatMap(({ keys, label, color }) => {
    const length = keys.reduce((sum, key) => sum + (timings[key] ?? 0), 0);
    if (length <= 0) return [];
    const segment = { from: at, to: at + length, color, label };
    at += length;
    return [segment];
  });
}

function longest({ members }: BatchGroup): number {
  return Math.max(0, ...durations(members));
}

/** From the first attempt's start to the last one's end: what the group had to wait for. */
export function durations(members: readonly BatchMember[]): number[] {
  return members.flatMap(({ attempts }) => {
    const starts = attempts.flatMap(({ started_at }) => (started_at === null ? [] : [seconds(started_at)]));
    const ends = attempts.flatMap(({ finished_at }) => (finished_at === null ? [] : [seconds(finished_at)]));
    return starts.length === 0 || ends.length === 0 ? [] : [Math.max(0, Math.max(...ends) - Math.min(...starts))];
  });
}
