import { expect, test } from "vitest";

import { at, makeSeries, makeStage, makeStep } from "../../test/factories";
import { mean, quantile, tailShare } from "../../lib/quantiles";
import { batchOf, durations } from "./batch";
import { eventPlace } from "./eventLink";
import { makeBatchGroup, makeMember, makeOverview, makeStepDetail } from "./factories";
import { logScale } from "./figures/logScale";
import { flowsOf } from "./figures/Topology";
import { rewardTrend, solveTrend } from "./learning";
import { compareWindows, curveValues, formatRange, metricOf, parseRange } from "./windows";

test("quantiles lie between ranks, and nothing has none", () => {
  expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
  expect(quantile([7], 0.9)).toBe(7);
  expect([mean([]), quantile([], 0.5), tailShare([])]).toEqual([null, null, null]);
});

test("the tail is what came after nine in ten had ended", () => {
  expect(tailShare([1, 2, 3, 4, 5, 6, 7, 8, 9, 18])).toBe(0.5);
});

test("a logarithmic axis holds whole decades, and what is not positive lies on its end", () => {
  const scale = logScale([0, 0.2, 30]);
  expect(scale.ticks).toEqual([0.1, 1, 10, 100]);
  expect([scale.place(0.1), scale.place(100), scale.place(0)]).toEqual([0, 1, 0]);
  expect(scale.place(1)).toBeCloseTo(1 / 3);
});

test("lanes put the slowest group first and count from the first attempt of those shown", () => {
  const slow = makeMember({ id: 2, attempts: [{ number: 1, status: "completed", created_at: at(0), started_at: at(310), finished_at: at(400), timings: { llm: 80, verify: 10 } }] });
  const step = makeStepDetail({ started_at: at(300), wait_s: 105, groups: [makeBatchGroup({ id: 1 }), makeBatchGroup({ id: 2, members: [slow] })] });
  const { lanes, to, consumedAt } = batchOf(step);
  expect(lanes.map(({ key }) => key)).toEqual([2, 4012]);
  expect(lanes[0]?.segments.map(({ label, from, to: end }) => [label, from, end])).toEqual([["LLM", 9, 89], ["tests", 89, 99]]);
  expect([to, consumedAt]).toEqual([104, 104]);
  expect(batchOf(step, 1).lanes).toHaveLength(1);
  expect(batchOf({ groups: [], started_at: at(0), wait_s: 0 }).lanes).toEqual([]);
});

test("a failed attempt is hatched, and its member lasts from the first start to the last end", () => {
  const failed = { number: 1, status: "failed", created_at: at(0), started_at: at(301), finished_at: at(321), timings: {} } as const;
  const member = makeMember({ attempts: [failed, { ...failed, number: 2, status: "completed", started_at: at(330), finished_at: at(341), timings: { llm: 11 } }] });
  const { lanes } = batchOf(makeStepDetail({ groups: [makeBatchGroup({ members: [member] })] }));
  expect(lanes[0]?.segments[0]).toMatchObject({ label: "failed attempt", from: 0, to: 20, isHatched: true });
  expect(durations([member, makeMember({ attempts: [] })])).toEqual([40]);
});

test("the red edge is that of the side the other one waits for", () => {
  const red = (bound: "rollout" | "trainer" | "balanced") =>
    flowsOf({ ...makeOverview(), verdict: { ...makeOverview().verdict, bound } }).flatMap(({ isBottleneck }, index) => (isBottleneck ? [index] : []));
  expect([red("rollout"), red("trainer"), red("balanced")]).toEqual([[1, 2], [3], []]);
});

test("a trend needs two whole windows, and ignores what was superseded", () => {
  const points = (values: number[], resume = 0, from = 0) => values.map((value, i) => ({ resume, step: from + i, value }));
  expect(rewardTrend(points(Array<number>(19).fill(0.1)))).toBeNull();
  const second = points(Array<number>(10).fill(0.3), 1, 10);
  expect(rewardTrend([...points(Array<number>(20).fill(0.1)), ...second])).toEqual({ first: expect.closeTo(0.1) as number, last: expect.closeTo(0.3) as number, numSteps: 20 });
});

test("solving is compared from the first evaluation to the last, with the paired difference of the last", () => {
  const result = { pass_at_1: 0.07, low: 0, high: 1, tasks: 4, attempts: 16, invalid: 0, valid_only: null, if_invalid_solved: null, paired: null };
  const paired = { against: "base", mean: 0.2, low: 0.1, high: 0.3 };
  const stages = [makeStage({ name: "base", result }), makeStage({ name: "train", kind: "rl" }), makeStage({ name: "rl", result: { ...result, pass_at_1: 0.27, paired } })];
  expect(solveTrend(stages)).toEqual({ first: { stage: "base", value: 0.07 }, last: { stage: "rl", value: 0.27 }, paired });
  expect(solveTrend([makeStage()])).toBeNull();
});

test("windows compare done steps only, and say how many", () => {
  const steps = [
    makeStep({ index: 1, wait_s: 10 }), makeStep({ index: 2, wait_s: 20 }), makeStep({ index: 2, wait_s: 900, status: "superseded" }),
    makeStep({ index: 3, wait_s: 5, metrics: { "train/grad_norm": "inf" } }),
  ];
  const rows = compareWindows(steps, { from: 1, to: 2 }, { from: 3, to: 9 });
  const row = (key: string) => rows.find(({ figure }) => figure.key === key);
  expect(row("wait")).toMatchObject({ a: { num: 2, mean: 15, p90: 19 }, b: { num: 1, mean: 5 }, difference: -10 });
  expect(row("grad_norm")).toMatchObject({ b: { num: 0, mean: null }, difference: null });
});

test("a window is two step numbers or one, and nothing else", () => {
  expect([parseRange("1-20"), parseRange("7")]).toEqual([{ from: 1, to: 20 }, { from: 7, to: 7 }]);
  expect([parseRange("9-3"), parseRange("all"), parseRange(undefined)]).toEqual([undefined, undefined, undefined]);
  expect(formatRange({ from: 3, to: 3 })).toBe("3");
});

test("a step finds its point of a curve that counts through the stages before it", () => {
  const stages = [makeStage({ name: "first", kind: "rl", num_total: 30 }), makeStage({ name: "second", kind: "rl", num_total: 9 })];
  const series = { ...makeSeries("rollout/staleness_mean", []), points: [{ resume: 0, step: 2, value: 1, at: at(0) }, { resume: 0, step: 32, value: 3, at: at(0) }] };
  const of = curveValues(series, stages);
  expect([of(makeStep({ stage: "first", index: 2 })), of(makeStep({ stage: "second", index: 2 })), of(makeStep({ stage: "second", index: 3 }))]).toEqual([1, 3, null]);
});

test("a figure that was not finite keeps its name", () => {
  expect(metricOf(makeStep({ metrics: { "train/loss": "nan" } }), "train/loss")).toBeNaN();
  expect(metricOf(makeStep({ metrics: { "train/loss": "-inf" } }), "train/loss")).toBe(-Infinity);
  expect(metricOf(makeStep(), "train/loss")).toBeNull();
});

test("an event leads to what it names", () => {
  const place = (kind: string, sentence = "", data: Record<string, unknown> = {}) => eventPlace({ kind, sentence, data });
  expect([place("engine_gone"), place("rolled_back"), place("groups_stale"), place("worker_lost")]).toEqual(["engines", "steps", "groups", "workers"]);
  expect(place("stage_succeeded", "Evaluation rl: pass@1 0.275")).toBe("evals");
  expect(place("many_groups_dropped", "", { step: 7 })).toBe("step");
  expect([place("run_started"), place("stage_started", "Stage rl started")]).toEqual([null, null]);
});
