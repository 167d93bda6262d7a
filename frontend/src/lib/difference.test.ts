import { expect, test } from "vitest";

import { makeCurve } from "../test/factories";
import { preparedOf } from "./curves";
import { differenceTo } from "./difference";

const curve = (values: (number | null)[]) => preparedOf(makeCurve("a", values));

test("the difference to itself is nothing", () => {
  expect(differenceTo(curve([1, 2, 4]), curve([1, 2, 4])).mean).toEqual([0, 0, 0]);
});

test("the base is read between its points, and nothing is made up where it has not been", () => {
  const base = curve([10, null, 30]);
  expect(differenceTo(base, curve([11, 25, 30, 99])).mean).toEqual([1, 5, 0, null]);
});

test("nothing is made up before the base begins", () => {
  const late = { ...curve([10, 20]), x: [2, 3] };
  expect(differenceTo(late, curve([1, 2, 3])).mean).toEqual([null, -8, -17]);
});

test("a gap of the curve stays a gap", () => {
  expect(differenceTo(curve([1, 2, 3]), curve([1, null, 3])).mean).toEqual([0, null, 0]);
});
