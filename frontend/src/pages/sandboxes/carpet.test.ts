import { expect, test } from "vitest";

import { cellsOf, occupancy, runsOf } from "./carpet";

const cells = Uint8Array.from([0, 2, 2, 4, 4, 0, 7, 0]);

test("a carpet is a byte a cell", () => {
  expect([...cellsOf({ cells: btoa("\u0000\u0002\u0007") })]).toEqual([0, 2, 7]);
});

test("equal cells beside each other are one stretch, and idle ones are none", () => {
  expect(runsOf(cells, 0, 8)).toEqual([
    { from: 1, to: 3, code: 2 }, { from: 3, to: 5, code: 4 }, { from: 6, to: 7, code: 7 },
  ]);
  expect(runsOf(cells, 1, 4)).toEqual([{ from: 0, to: 1, code: 4 }, { from: 2, to: 3, code: 7 }]);
});

test("the table says how many slots were in each stage, on the mean of a part of the time", () => {
  const [first, second] = occupancy(cells, 2, 4, 8, 2);
  expect(first).toEqual([1, 0, 0.5, 0, 0.5, 0, 0, 0]);
  expect(second).toEqual([0.5, 0, 0.5, 0, 0.5, 0, 0, 0.5]);
});
