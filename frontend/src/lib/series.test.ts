import { expect, test } from "vitest";

import { alignX, onto, prepareSeries, readValue, trailingMean } from "./series";

const points = (resume: number, from: number, values: number[]) => values.map((value, i) => ({ resume, step: from + i, value }));

test("the mean line is the trailing mean of the values there are", () => {
  expect(trailingMean([1, 2, 3, 4], 2)).toEqual([1, 1.5, 2.5, 3.5]);
  expect(trailingMean([1, null, 3], 10)).toEqual([1, null, 2]);
});

test("non-finite values are marks on the edge, never dropped and never in the mean", () => {
  const prepared = prepareSeries(points(0, 0, [1, NaN, Infinity, -Infinity, 3]), 10);
  expect(prepared.x).toEqual([0, 1, 2, 3, 4]);
  expect(prepared.raw).toEqual([1, null, null, null, 3]);
  expect(prepared.edges).toEqual([
    { step: 1, kind: "nan" },
    { step: 2, kind: "+inf" },
    { step: 3, kind: "-inf" },
  ]);
  expect(prepared.mean.at(-1)).toBe(2);
});

test("after a resume the new life counts, and what it undid stays as ghosts", () => {
  const prepared = prepareSeries([...points(0, 0, [1, 2, 3, 4]), ...points(1, 2, [30])]);
  expect(prepared.x).toEqual([0, 1, 2]);
  expect(prepared.raw).toEqual([1, 2, 30]);
  // Step 3 was undone too, although the new life has not reached it yet.
  expect(prepared.ghosts).toEqual([
    { step: 2, value: 3 },
    { step: 3, value: 4 },
  ]);
  expect(prepared.resumes).toEqual([{ resume: 1, step: 2 }]);
});

test("points may come in any order", () => {
  const ordered = [...points(0, 0, [1, 2, 3]), ...points(1, 1, [20, 30])];
  expect(prepareSeries(ordered.toReversed())).toMatchObject({ x: [0, 1, 2], raw: [1, 20, 30] });
});

test("several curves share one axis", () => {
  const x = alignX([{ x: [0, 2] }, { x: [1, 2] }]);
  expect(x).toEqual([0, 1, 2]);
  expect(onto(x, [0, 2], [5, 6])).toEqual([5, null, 6]);
});

test("what JSON cannot hold is read back", () => {
  expect(readValue("NaN")).toBeNaN();
  expect(readValue(null)).toBeNaN();
  expect(readValue("Infinity")).toBe(Infinity);
  expect(readValue("-Infinity")).toBe(-Infinity);
  expect(readValue(0)).toBe(0);
});
