import { expect, test } from "vitest";

import { makeCurve } from "../test/factories";
import { colorOf, preparedOf } from "./curves";

test("buckets are a band, single points are not", () => {
  expect(preparedOf(makeCurve("a", [1, 2])).envelope).toBeUndefined();
  const bucketed = makeCurve("a", [1, 2], { is_raw: false });
  bucketed.buckets.low = [0, 1];
  expect(preparedOf(bucketed).envelope).toEqual({ low: [0, 1], high: [1, 2] });
});

test("what JSON cannot hold becomes a mark at the place of its bucket", () => {
  const curve = makeCurve("a", [1, null, 3]);
  curve.buckets.non_finite = [
    { index: 1, kind: "NaN", count: 1 },
    { index: 2, kind: "-Infinity", count: 4 },
  ];
  expect(preparedOf(curve).edges).toEqual([
    { x: 2, kind: "nan" },
    { x: 3, kind: "-inf" },
  ]);
});

test("a bucket of ghosts shows its lowest and its highest", () => {
  const curve = makeCurve("a", [1]);
  curve.ghosts = { x: [3, 4], last: [2, 5], mean: [2, 5], low: [1, 5], high: [9, 5], count: [3, 1], non_finite: [] };
  expect(preparedOf(curve).ghosts).toEqual([
    { x: 3, value: 1 },
    { x: 3, value: 9 },
    { x: 4, value: 5 },
  ]);
});

test("a resume says where it began, for how long nothing ran, and why", () => {
  const curve = makeCurve("a", [1], { resumes: [{ resume: 2, step: 61, x: 60.5, reason: "Its worker was lost.", downtime_s: 240 }] });
  expect(preparedOf(curve).resumes).toEqual([{ resume: 2, x: 60.5, note: "from step 61, down 4 m 0 s, Its worker was lost." }]);
});

test("a hue means who did it", () => {
  expect(colorOf("rollout/tail_share")).toBe("--role-rollout");
  expect(colorOf("train/ess/lag_2")).toBe("--role-trainer");
  expect(colorOf("mine/own")).toBe("--role-trainer");
});
