import { expect, test } from "vitest";

import { diffLines, hunks } from "./diff";

const marks = (before: string, after: string) =>
  diffLines(before, after).map(({ kind, text }) => `${{ same: " ", removed: "-", added: "+" }[kind]}${text}`);

test("a changed line is one that went and one that came, between those that stay", () => {
  expect(marks("a\nb\nc", "a\nB\nc")).toEqual([" a", "-b", "+B", " c"]);
});

test("equal texts have no change, and an empty one is one empty line", () => {
  expect(marks("a\nb", "a\nb")).toEqual([" a", " b"]);
  expect(marks("", "a")).toEqual(["-", "+a"]);
});

test("a moved line is found by the longest common subsequence", () => {
  expect(marks("a\nb\nc\nd", "b\nc\nd\na")).toEqual(["-a", " b", " c", " d", "+a"]);
});

test("lines are numbered from 1 on their own side", () => {
  const [, removed, added] = diffLines("a\nb", "a\nx");
  expect([removed?.before, removed?.after, added?.before, added?.after]).toEqual([2, null, null, 2]);
});

test("texts without anything in common are replaced whole, also where they are too long to compare", () => {
  const left = Array.from({ length: 2100 }, (_, i) => `a${i}`).join("\n");
  const right = Array.from({ length: 2100 }, (_, i) => `b${i}`).join("\n");
  const lines = diffLines(left, right);
  expect(lines.filter((line) => line.kind === "removed")).toHaveLength(2100);
  expect(lines.filter((line) => line.kind === "added")).toHaveLength(2100);
});

test("hunks keep some lines around a change and count those that they hide", () => {
  const before = Array.from({ length: 20 }, (_, i) => `line ${i}`);
  const after = before.map((line, i) => (i === 10 ? "changed" : line));
  const [hunk, rest] = hunks(diffLines(before.join("\n"), after.join("\n")), 2);
  expect(hunk?.numHidden).toBe(8);
  expect(hunk?.lines.map((line) => line.kind)).toEqual(["same", "same", "removed", "added", "same", "same"]);
  expect(rest).toEqual({ lines: [], numHidden: 7 });
});
