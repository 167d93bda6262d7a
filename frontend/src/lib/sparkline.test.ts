import { expect, test } from "vitest";

import { sparklinePath } from "./sparkline";

test("values rise from the lower edge to the upper one", () => {
  expect(sparklinePath([0, 1, 2], 100, 20)).toBe("M0 20h0L50 10L100 0");
});

test("a missing or non-finite value breaks the line and is never a zero", () => {
  expect(sparklinePath([1, null, 3, NaN, 2], 40, 10)).toBe("M0 10h0M20 0h0M40 5h0");
});

test("a constant lies in the middle and nothing draws nothing", () => {
  expect(sparklinePath([7, 7], 40, 10)).toBe("M0 5h0L40 5");
  expect(sparklinePath([], 40, 10)).toBe("");
  expect(sparklinePath([null], 40, 10)).toBe("");
});
