import { expect, test } from "vitest";

import type { LogLine, Tokens } from "../api/inspector";
import { makeAttempt, makeSkeleton } from "../test/factories";
import { hitAfter, lineOf, logText, splitByHit } from "./log";
import { longestLoop, outlineTurns } from "./outline";
import { prettyJson } from "./prettyJson";
import { attemptSegments, idleSeconds, stageSegments, turnSegments } from "./timeline";
import { groupTokens, shadeOf } from "./tokenColors";

test("columns become one row a turn, with its flags", () => {
  const rows = outlineTurns(makeSkeleton([{ preview: "ls" }, { preview: "pytest", exit_code: 1 }, { preview: "submit" }], { first_test: 1, submit: 2, repeated: [2] }));
  expect(rows.map((row) => [row.preview, row.isError, row.isFirstTest, row.isSubmit, row.isRepeated])).toEqual([
    ["ls", false, false, false, false],
    ["pytest", true, true, false, false],
    ["submit", false, false, true, true],
  ]);
});

test("a loop is the longest run of one command in a row", () => {
  const repeats = [{ command: "ls", turns: [0, 3, 4, 9] }, { command: "cat", turns: [5, 6, 7, 11] }];
  expect(longestLoop(makeSkeleton([], { repeats }))).toEqual({ command: "cat", from: 5, count: 3 });
  expect(longestLoop(makeSkeleton([], { repeats: [{ command: "ls", turns: [0, 2, 4, 5] }] }))).toBeUndefined();
});

test("a turn's wait in the engine's queue is apart from its generation", () => {
  const [turn] = outlineTurns(makeSkeleton([{ offset_s: 2, llm_s: 3, queue_s: 1, exec_s: 0.5 }]));
  if (turn === undefined) throw new Error("no turn");
  expect(turnSegments(turn).map(({ from, to, label }) => [from, to, label])).toEqual([[2, 3, "LLM queue"], [3, 5, "LLM generate"], [5, 5.5, "command"]]);
});

test("time that no stage explains is idle, and shown", () => {
  const turns = outlineTurns(makeSkeleton([{ offset_s: 2, llm_s: 1, exec_s: 0 }, { offset_s: 5, llm_s: 1, exec_s: 1 }]));
  const attempt = makeAttempt({ timings: { start: 1, setup: 0.5, verify: 2 }, started_at: "2026-11-28T10:00:00Z", finished_at: "2026-11-28T10:00:10Z" });
  const segments = attemptSegments(attempt, turns);
  expect(segments.filter((one) => one.label === "idle").map(({ from, to }) => [from, to])).toEqual([[1.5, 2], [3, 5], [9, 10]]);
  expect(idleSeconds(segments)).toBeCloseTo(3.5);
  expect(segments.at(-1)?.to).toBeCloseTo(10);
});

test("a sibling's stages fill its span, the rest hatched", () => {
  const segments = stageSegments({ start: 1, llm: 4, exec: 2 }, 10, 8);
  expect(segments.map(({ from, to, label }) => [from, to, label])).toEqual([[10, 11, "start"], [11, 15, "LLM"], [15, 17, "commands"], [17, 18, "between stages"]]);
});

const tokens = {
  ids: [1, 2, 3, 4, 5], mask: [0, 0, 1, 1, 0], special: [0], logprobs: [null, null, -3, -0.1, null], trainer: [null, null, -2.5, null, null],
  versions: [null, null, 4, 5, null],
} as unknown as Tokens;

test("a token is coloured by the size of what was asked for, and only where it is known", () => {
  expect(shadeOf(tokens, 2, "gap")).toEqual({ strength: 0.5, hue: "--role-trainer" });
  expect(shadeOf(tokens, 3, "gap")).toBeNull();
  expect(shadeOf(tokens, 2, "logprob")?.strength).toBe(0.5);
  expect(shadeOf(tokens, 0, "mask")).toBeNull();
  expect(shadeOf(tokens, 2, "version")?.hue).not.toBe(shadeOf(tokens, 3, "version")?.hue);
});

test("sampled and special tokens stand alone, the others together", () => {
  expect(groupTokens({ ...tokens, ids: [1, 2, 9, 3, 4, 5, 6], mask: [0, 0, 0, 1, 1, 0, 0] })).toEqual([
    { from: 0, to: 1 }, { from: 1, to: 3 }, { from: 3, to: 4 }, { from: 4, to: 5 }, { from: 5, to: 7 },
  ]);
});

test("hits are found whatever their case, and stepping goes round", () => {
  expect(splitByHit("An Error, an ERROR", "error")).toEqual(["An ", "Error", ", an ", "ERROR", ""]);
  expect(splitByHit("a.b", ".")).toEqual(["a", ".", "b"]);
  expect(splitByHit("İx", "x")).toEqual(["İx"]);
  expect([hitAfter([3, 8], 3), hitAfter([3, 8], 8), hitAfter([], 1)]).toEqual([8, 3, undefined]);
  expect([lineOf(3, 3), lineOf(3, 5)]).toEqual(["line 3", "lines 3 to 5"]);
});

test("a copy of the log says where a line was cut", () => {
  const lines = [{ part: "command", text: "ls", length: 2 }, { part: "output", text: "xx", length: 9 }] as LogLine[];
  expect(logText(lines)).toBe("$ ls\nxx [cut: 2 of 9 characters]\n");
});

test("plain lists stay on one line, and JSON reads back", () => {
  const value = { a: [1, 2, null], b: [{ c: "x" }], d: {}, e: [] };
  expect(prettyJson(value)).toBe('{\n  "a": [1, 2, null],\n  "b": [\n    {\n      "c": "x"\n    }\n  ],\n  "d": {},\n  "e": []\n}');
  expect(JSON.parse(prettyJson(value))).toEqual(value);
});
