import { expect, test } from "vitest";

import { isSmooth, readSmoothing, smoothName, SMOOTHINGS, withKind, writeSmoothing } from "./smoothing";

test("what is written is read back, and the default is not written", () => {
  for (const kind of SMOOTHINGS) expect(readSmoothing(writeSmoothing(withKind(kind)))).toEqual(withKind(kind));
  expect(writeSmoothing(withKind("mean"))).toBeUndefined();
  expect(writeSmoothing({ kind: "median", amount: 5 })).toBe("median:5");
});

test("what the server would refuse is the default", () => {
  for (const wrong of ["best", "mean:0", "mean:101", "mean:2.5", "ema:1", "ema:-1", "median:x", ""]) {
    expect(readSmoothing(wrong)).toEqual({ kind: "mean", amount: 10 });
  }
});

test("a legend names the line", () => {
  expect(smoothName(readSmoothing(undefined))).toBe("10-step mean");
  expect(smoothName(readSmoothing("ema:0.9"))).toBe("exponential mean 0.9");
});

test("a mean of one point is no smoothing", () => {
  expect(isSmooth(readSmoothing("mean:1"))).toBe(false);
  expect(isSmooth(readSmoothing("ema:0"))).toBe(false);
  expect(isSmooth(readSmoothing("none"))).toBe(false);
  expect(isSmooth(readSmoothing("mean:2"))).toBe(true);
});
