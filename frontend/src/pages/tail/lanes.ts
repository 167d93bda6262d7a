/** The groups of a step as lanes on one axis of time. Pure. */
import type { TailAttempt, TailGroup, TailMember } from "../../api/tail";
import type { Lane, Mark } from "../../components/Lanes";
import { formatCount, words } from "../../lib/format";
import type { Segment } from "../../lib/lanes";
import { partsOf } from "../../lib/parts";
import { OUTCOME } from "../../lib/status";

export type GroupLanes = { lanes: Lane[]; to: number; marks: Mark[] };

const VERSIONS = 4;
const seconds = (iso: string) => Date.parse(iso) / 1000;

/** The slowest group first; zero is when the first attempt was leased. What runs still goes on to `now`. */
export function lanesOf(groups: readonly TailGroup[], now: number): GroupLanes {
  const starts = groups.flatMap(({ members }) => members.flatMap(({ attempts }) => attempts.flatMap(({ started_at }) => (started_at === null ? [] : [seconds(started_at)]))));
  const zero = Math.min(...starts);
  if (!Number.isFinite(zero)) return { lanes: [], to: 1, marks: [] };
  const spans = groups.map((group) => ({ group, span: spanOf(group, now) })).sort((a, b) => b.span - a.span);
  const lanes = spans.flatMap(({ group }) => group.members.map((member) => laneOf(member, group, zero, now)));
  const releases = new Set(groups.flatMap(({ consumed_at }) => (consumed_at === null ? [] : [seconds(consumed_at) - zero])));
  const ends = [...releases, ...lanes.flatMap(({ segments }) => segments.map(({ to }) => to))];
  // One line through all lanes where one step took them together; else each lane has its own.
  const marks = releases.size === 1 ? [...releases].map((at) => ({ at, label: "step consumed" })) : [];
  return { lanes: marks.length === 1 ? lanes : lanes.map((lane) => withRelease(lane, groups, zero)), to: Math.max(1, ...ends), marks };
}

function withRelease(lane: Lane, groups: readonly TailGroup[], zero: number): Lane {
  const consumed = groups.find(({ members }) => members.some(({ id }) => id === lane.key))?.consumed_at ?? null;
  return consumed === null ? lane : { ...lane, marks: [{ at: seconds(consumed) - zero, label: "consumed" }] };
}

/** From its first lease to its last member's end. */
function spanOf({ members }: TailGroup, now: number): number {
  const attempts = members.flatMap((member) => member.attempts);
  const starts = attempts.flatMap(({ started_at }) => (started_at === null ? [] : [seconds(started_at)]));
  return starts.length === 0 ? 0 : Math.max(...attempts.map((attempt) => endOf(attempt, now))) - Math.min(...starts);
}

function endOf({ started_at, finished_at }: TailAttempt, now: number): number {
  return finished_at === null ? (started_at === null ? 0 : now) : seconds(finished_at);
}

function laneOf(member: TailMember, group: TailGroup, zero: number, now: number): Lane {
  const face = OUTCOME[member.outcome];
  const stop = member.stop_reason === "" ? "" : ` · ${words(member.stop_reason)}`;
  return {
    key: member.id,
    label: `#${member.id}`,
    group: group.task.key,
    note: `${face.label.toLowerCase()}${stop} · ${formatCount(member.num_turns)} turns`,
    tone: face.tone,
    segments: member.attempts.flatMap((attempt) => segmentsOf(attempt, zero, now)),
    strip: member.attempts.flatMap((attempt) => versionsOf(attempt, zero)),
  };
}

function segmentsOf(attempt: TailAttempt, zero: number, now: number): Segment[] {
  if (attempt.started_at === null) return [];
  const from = seconds(attempt.started_at) - zero;
  const to = endOf(attempt, now) - zero;
  if (attempt.status === "failed") return [{ from, to, color: "--tone-invalid", label: "failed attempt", isHatched: true }];
  if (attempt.turns.at.length === 0) return bySums(attempt, from, to);
  const { start = 0, setup = 0, verify = 0, teardown = 0 } = attempt.timings;
  const turns = attempt.turns.at.flatMap((at, index) => {
    const llm = attempt.turns.llm[index] ?? 0;
    const shell = attempt.turns.exec[index] ?? 0;
    const middle = from + at + llm;
    return [
      { from: from + at, to: middle, color: "--role-llm", label: "LLM" },
      ...(shell > 0 ? [{ from: middle, to: middle + shell, color: "--role-rollout", label: "shell" }] : []),
    ];
  });
  const ended = to - teardown;
  return [
    ...(start + setup > 0 ? [{ from, to: from + start + setup, color: "--role-sandbox", label: "start, setup" }] : []),
    ...turns,
    ...(verify > 0 && attempt.finished_at !== null ? [{ from: ended - verify, to: ended, color: "--tone-solved", label: "tests" }] : []),
  ];
}

/** Where turns are not known: the sums of its parts, one after the other. */
function bySums(attempt: TailAttempt, from: number, to: number): Segment[] {
  let at = from;
  const known = partsOf(attempt.timings).map(({ label, color, seconds: length }) => {
    const segment = { from: at, to: at + length, color, label };
    at += length;
    return segment;
  });
  return known.length > 0 ? known : [{ from, to, color: "--tone-running", label: attempt.status }];
}

/** Runs of turns that one weight version wrote. */
function versionsOf({ started_at, turns }: TailAttempt, zero: number): Segment[] {
  if (started_at === null) return [];
  const start = seconds(started_at) - zero;
  const runs: Segment[] = [];
  turns.version.forEach((version, index) => {
    const from = start + (turns.at[index] ?? 0);
    const to = from + (turns.llm[index] ?? 0) + (turns.exec[index] ?? 0);
    const label = version === null ? "weights unknown" : `weights v${version}`;
    const last = runs.at(-1);
    if (last?.label === label) last.to = to;
    else runs.push({ from, to, label, color: version === null ? "--role-other" : `--version-${version % VERSIONS}` });
  });
  return runs;
}
