import { expect, test } from "vitest";

import { makeRunDetail, makeSeries } from "../../test/factories";
import { makeFates, makeOverview } from "./factories";
import { findings } from "./findings";

const calm = { run: makeRunDetail(), overview: makeOverview(), series: [], maxGradNorm: 1 };
const sentences = (seen: Partial<Parameters<typeof findings>[0]>) => findings({ ...calm, ...seen }).map(({ level, sentence }) => `${level}: ${sentence}`);

test("a run that is well has no finding", () => {
  expect(sentences({})).toEqual([]);
});

test("errors come before warnings, each with its numbers", () => {
  const overview = makeOverview({
    loop: { ...makeOverview().loop, solved: 40, unsolved: 54, invalid: 6 },
    fates: makeFates({ trained: 70, stale: 30 }),
  });
  expect(sentences({ overview })).toEqual([
    "error: 30.0 % of the RL trajectories were dropped: stale, superseded or released.",
    "warning: 6.0 % of 100 trajectories ended without a reward: the infrastructure failed them.",
  ]);
});

test("a surplus of production matters while the run goes on, and not when it has ended", () => {
  const overview = makeOverview({ balance: { produced_per_h: 3480, consumed_per_h: 1107, window_s: 600 } });
  expect(sentences({ overview })).toEqual(["error: 3.14 times as many trajectories are produced as are consumed: the rest goes stale."]);
  expect(sentences({ overview, run: makeRunDetail({ finished_at: "2026-11-29T13:00:00Z", status: "succeeded" }) })).toEqual([]);
});

test("one full engine is found though the others are idle, and a few calls prove nothing", () => {
  const { topology } = makeOverview();
  const overview = makeOverview({ topology: { ...topology, engines: { ...topology.engines, kv_max: 0.97 } }, calls: { calls: 500, errors: 50, error_rate: 0.1 } });
  expect(sentences({ overview })).toEqual(["error: An engine's KV cache is 97.0 % full: its queue will starve."]);
});

test("only the last twenty steps can be without a gradient too often", () => {
  const zero = (...values: number[]) => [makeSeries("train/zero_gradient", values)];
  const longAgo = [...Array<number>(10).fill(1), ...Array<number>(20).fill(0)];
  expect(sentences({ series: zero(...longAgo) })).toEqual([]);
  expect(sentences({ series: zero(...longAgo, 1, 1, 1, 1, 1) })).toEqual(["warning: 5 of the last 20 steps had no gradient: no group had mixed rewards."]);
});

test("a loss that is not finite is an error when it is new and a warning when it is history", () => {
  const loss = (step: number) => [makeSeries("train/loss", Array.from({ length: 60 }, (_, at) => (at === step ? "NaN" : 0.1)))];
  expect(sentences({ series: loss(55) })).toEqual(["error: Not finite at step 55: train/loss."]);
  expect(sentences({ series: loss(3) })).toEqual(["warning: Not finite at step 3: train/loss."]);
});

test("a single large gradient is no finding, a clipped habit is one", () => {
  const norm = (...values: number[]) => [makeSeries("train/grad_norm", [...Array<number>(10).fill(0.07), ...values])];
  expect(sentences({ series: norm(7.7) })).toEqual([]);
  expect(sentences({ series: norm(2, 2, 2) })).toEqual(["warning: The gradient was clipped in 3 of the last 10 steps."]);
});
