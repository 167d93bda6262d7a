import { expect, test } from "vitest";

import { commonest, firstDivergence } from "./divergence";

const ran = (...commands: string[]) => commands.map((command, turn) => ({ turn, command }));

test("siblings part at the first turn in which their commands differ", () => {
  expect(firstDivergence([ran("ls", "cat a"), ran("ls", "cat b"), ran("ls", "cat a")])).toBe(1);
  expect(firstDivergence([ran("ls"), ran("pwd")])).toBe(0);
});

test("one that has ended has parted from those that go on", () => {
  expect(firstDivergence([ran("ls", "make"), ran("ls")])).toBe(1);
});

test("spaces make no difference, and who ran nothing says nothing", () => {
  expect(firstDivergence([ran(" ls  -l\n", "a"), ran("ls -l", "b"), []])).toBe(1);
  expect(firstDivergence([ran("ls", "a"), ran("ls", "a")])).toBeNull();
  expect(firstDivergence([ran("ls"), []])).toBeNull();
  expect(firstDivergence([])).toBeNull();
});

test("the commonest command of a turn, where there is one", () => {
  expect(commonest(["ls ", "ls", "cat"])).toBe("ls");
  expect(commonest(["ls", "cat"])).toBeUndefined();
  expect(commonest(["ls", "ls", "cat", "cat"])).toBeUndefined();
  expect(commonest([undefined, "ls"])).toBe("ls");
  expect(commonest([])).toBeUndefined();
});
