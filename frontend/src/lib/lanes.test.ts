import { expect, test } from "vitest";

import { CARPET, laneAt, layoutOf, paintLane, segmentAt, timeTicks } from "./lanes";

const segment = (from: number, to: number, label = "llm") => ({ from, to, label, color: "--role-llm" });

test("lanes of a group stand together below its heading; very many become a carpet that fits a screen", () => {
  const few = layoutOf(["a", "a", "b"]);
  expect(few).toEqual({ rowPx: 18, tops: [20, 38, 76], headings: [{ top: 0, text: "a" }, { top: 56, text: "b" }], height: 94 });
  const many = layoutOf(Array.from({ length: 384 }, (_, i) => `g${Math.floor(i / 8)}`));
  expect(many.rowPx).toBe(1);
  expect(many.headings).toEqual([]);
  expect(many.height).toBeLessThan(600);
  expect(layoutOf(Array.from({ length: CARPET }, () => undefined)).rowPx).toBe(8);
});

test("a height finds its lane, and none in a heading", () => {
  const layout = layoutOf(["a", "a", "b"]);
  expect([19, 20, 37, 38, 55, 60, 76, 93, 94].map((y) => laneAt(layout, y))).toEqual([undefined, 0, 0, 1, 1, undefined, 2, 2, undefined]);
});

test("where segments overlap the later one is meant", () => {
  const segments = [segment(0, 10, "all"), segment(2, 4, "tests")];
  expect(segmentAt(segments, 3)?.label).toBe("tests");
  expect(segmentAt(segments, 6)?.label).toBe("all");
  expect(segmentAt(segments, 11)).toBeUndefined();
});

test("ticks are round in seconds, minutes and hours", () => {
  expect(timeTicks(0, 100, 5)).toEqual([0, 30, 60, 90]);
  expect(timeTicks(0, 1_800, 6)).toEqual([0, 300, 600, 900, 1200, 1500, 1800]);
  expect(timeTicks(0, 0.5, 5)).toEqual([0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5]);
  expect(timeTicks(95, 125, 3)).toEqual([100, 110, 120]);
});

test("a lane is painted in its rows only, a short segment is still a pixel, a hatched one lets the paper through", () => {
  const pixels = new Uint32Array(10 * 4);
  paintLane(pixels, 10, { top: 1, height: 2 }, 0, 100, [
    { from: 0, to: 30, rgba: 7 }, { from: 50, to: 50.001, rgba: 8 }, { from: 60, to: 100, rgba: 9, isHatched: true }, { from: 200, to: 300, rgba: 5 },
  ]);
  const rows = [0, 1, 2, 3].map((y) => [...pixels.subarray(y * 10, y * 10 + 10)]);
  expect(rows[0]).toEqual(Array(10).fill(0));
  expect(rows[1]).toEqual([7, 7, 7, 0, 0, 8, 9, 9, 9, 0]);
  expect(rows[2]).toEqual([7, 7, 7, 0, 0, 8, 9, 9, 0, 0]);
  expect(rows[3]).toEqual(Array(10).fill(0));
});
