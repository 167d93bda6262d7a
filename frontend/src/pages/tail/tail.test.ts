import { expect, test } from "vitest";

import type { TailAttempt, TailGroup, TailMember } from "../../api/tail";
import { at } from "../../test/factories";
import { lanesOf } from "./lanes";
import { causeOf, stragglersOf } from "./stragglers";

const attempt = (fields: Partial<TailAttempt> = {}): TailAttempt => ({
  number: 1, status: "completed", created_at: at(0), started_at: at(10), finished_at: at(20), queue_s: null,
  timings: { start: 1, llm: 4, exec: 2, verify: 1, teardown: 0.5 },
  turns: { at: [1, 4], llm: [2, 2], exec: [1, 0], version: [6, 7] }, ...fields,
});
const member = (id: number, attempts: TailAttempt[], fields: Partial<TailMember> = {}): TailMember => ({
  id, index: 0, outcome: "solved", stop_reason: "submitted", num_turns: 2, output_tokens: 40, attempts, repeat: null, ...fields,
});
const group = (id: number, members: TailMember[], consumed_at: string | null = at(40)): TailGroup => ({
  id, index: id, stage: "rl", task: { id, key: `task-${id}`, repository: "r" }, status: "consumed", opened_at: at(0), consumed_at, members,
});

test("a lane has each turn where it was, the tests at its end, and a strip of weight versions", () => {
  const { lanes, to, marks } = lanesOf([group(1, [member(5, [attempt()])])], 0);
  expect(lanes[0]?.segments.map(({ from, to: end, label }) => [from, end, label])).toEqual([
    [0, 1, "start, setup"], [1, 3, "LLM"], [3, 4, "shell"], [4, 6, "LLM"], [8.5, 9.5, "tests"],
  ]);
  expect(lanes[0]?.strip?.map(({ from, to: end, label }) => [from, end, label])).toEqual([[1, 4, "weights v6"], [4, 6, "weights v7"]]);
  expect(marks).toEqual([{ at: 30, label: "step consumed" }]);
  expect(to).toBe(30);
});

test("a failed attempt is hatched, its retry follows, and what runs goes on until now", () => {
  const failed = attempt({ status: "failed", finished_at: at(12), turns: { at: [], llm: [], exec: [], version: [] } });
  const running = attempt({ number: 2, status: "running", started_at: at(15), finished_at: null, timings: {}, turns: { at: [], llm: [], exec: [], version: [] } });
  const { lanes } = lanesOf([group(1, [member(5, [failed, running], { outcome: "running" })], null)], Date.parse(at(60)) / 1000);
  expect(lanes[0]?.segments).toEqual([
    { from: 0, to: 2, color: "--tone-invalid", label: "failed attempt", isHatched: true },
    { from: 5, to: 50, color: "--tone-running", label: "running" },
  ]);
});

test("the slowest group is first, and groups that were consumed apart have a line each", () => {
  const slow = attempt({ finished_at: at(35) });
  const { lanes, marks } = lanesOf([group(1, [member(5, [attempt()])]), group(2, [member(6, [slow])], at(50))], 0);
  expect(lanes.map(({ key, marks: own }) => [key, own?.[0]?.at])).toEqual([[6, 40], [5, 30]]);
  expect(marks).toEqual([]);
});

test("without a lease there is nothing to draw", () => {
  expect(lanesOf([group(1, [member(5, [attempt({ started_at: null, finished_at: null })])])], 0).lanes).toEqual([]);
});

test("a straggler names what it waited for longest, the queue of the engine apart from the model", () => {
  const [first, second] = stragglersOf({ groups: [group(1, [
    member(5, [attempt({ queue_s: 3 })]),
    member(6, [attempt({ created_at: at(-50) })]),
    member(7, [attempt({ started_at: null, finished_at: null })]),
  ])] }, 2);
  expect([first?.id, second?.id]).toEqual([6, 5]);
  expect(first?.waits[0]).toEqual({ label: "worker queue", seconds: 60 });
  expect(second?.waits.map(({ label }) => label)).toEqual(["worker queue", "engine queue", "shell", "LLM", "tests", "start, setup"]);
});

test("a command that fills a third of the turns is a loop", () => {
  const waits = [{ label: "LLM", seconds: 9 }];
  expect(causeOf({ waits, numTurns: 30, repeat: { command: "pytest", count: 10 } })).toBe("loop: one command 10 times");
  expect(causeOf({ waits, numTurns: 31, repeat: { command: "pytest", count: 10 } })).toBe("LLM");
  expect(causeOf({ waits, numTurns: 3, repeat: null })).toBe("LLM");
});
