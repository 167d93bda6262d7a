import { expect, test } from "vitest";

import { alignX, centralRange, onto, prepareSeries, readValue, trailingMean } from "./series";

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
    { x: 1, kind: "nan" },
    { x: 2, kind: "+inf" },
    { x: 3, kind: "-inf" },
  ]);
  expect(prepared.mean.at(-1)).toBe(2);
});

test("after a resume the new life counts, and what it undid stays as ghosts", () => {
  const prepared = prepareSeries([...points(0, 0, [1, 2, 3, 4]), ...points(1, 2, [30])]);
  expect(prepared.x).toEqual([0, 1, 2]);
  expect(prepared.raw).toEqual([1, 2, 30]);
  // Step 3 was undone too, although the new life has not reached it yet.
  expect(prepared.ghosts).toEqual([
    { x: 2, value: 3 },
    { x: 3, value: 4 },
  ]);
  expect(prepared.resumes).toEqual([{ resume: 1, x: 2 }]);
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

test("the central range leaves one wild value outside, and a constant has none", () => {
  const raw = [...Array.from({ length: 199 }, (_, i) => i / 198), 1e9, null];
  const [low, high] = centralRange([{ raw }]) ?? [];
  expect(low).toBeCloseTo(0.01, 2);
  expect(high).toBeLessThan(1.01);
  expect(centralRange([{ raw: [3, 3, 3] }])).toBeNull();
  expect(centralRange([{ raw: [] }])).toBeNull();
});
