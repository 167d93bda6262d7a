import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { makeSeries } from "../test/factories";
import { Invalidator, staleKeys, staleKeysOfTopic, withPoints } from "./applyEvent";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const KEYS: (string | number | object)[][] = [
  ["me"], ["runs", {}], ["run", 7, "detail"], ["run", 7, "overview"], ["run", 7, "steps"], ["run", 7, "events", {}], ["run", 7, "groups", {}],
  ["run", 8, "detail"], ["trajectories", 7, {}], ["trajectories", 8, {}], ["trajectory", 40, "detail"], ["trajectory", 41, "detail"],
  ["trajectory", 40, "turns", 1], ["sandboxes", {}], ["failures", "groups", {}], ["engines", {}], ["workers"],
];

function setUp() {
  const queryClient = new QueryClient();
  for (const key of KEYS) queryClient.setQueryData(key, []);
  const stale = () => KEYS.filter((key) => queryClient.getQueryState(key)?.isInvalidated).map((key) => key.flatMap((part) => (typeof part === "object" ? [] : [part])).join("/"));
  return { queryClient, invalidator: new Invalidator(queryClient, 1000, () => Date.now()), stale };
}

test("an event makes stale what it changed and nothing else", () => {
  const { invalidator, stale } = setUp();
  invalidator.applyEvent({ type: "trajectory_changed", run: 7, trajectory: 40, status: "completed" });
  vi.advanceTimersByTime(0);
  expect(stale()).toEqual(["run/7/detail", "run/7/overview", "run/7/groups", "trajectories/7", "trajectory/40/detail", "trajectory/40/turns/1"]);
});

test("turns of an open trajectory refresh it alone", () => {
  const { invalidator, stale } = setUp();
  invalidator.applyEvent({ type: "turns_added", trajectory: 40, attempt: 1, first_index: 0, last_index: 3 });
  vi.advanceTimersByTime(0);
  expect(stale()).toEqual(["trajectory/40/detail", "trajectory/40/turns/1"]);
});

test("the fleet's lists are told apart", () => {
  const { invalidator, stale } = setUp();
  invalidator.applyEvent({ type: "fleet_changed", what: "workers" });
  vi.advanceTimersByTime(0);
  expect(stale()).toEqual(["workers"]);
});

test("a storm of events is one refetch a second", () => {
  const { queryClient, invalidator } = setUp();
  const invalidate = vi.spyOn(queryClient, "invalidateQueries");
  for (let i = 0; i < 40; i += 1) {
    invalidator.applyEvent({ type: "event_added", run: 7, at: "", level: "info", sentence: "" });
    vi.advanceTimersByTime(20);
  }
  expect(invalidate).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(1000);
  expect(invalidate).toHaveBeenCalledTimes(2);
});

test("metric points are appended without a fetch, and twice is once", () => {
  const { queryClient, invalidator, stale } = setUp();
  const key = ["run", 7, "metrics", ["reward/mean", "train/ess"]];
  queryClient.setQueryData(key, [makeSeries("reward/mean", [0.1, 0.2])]);
  const points = [
    { name: "reward/mean", resume: 0, step: 2, value: 0.3, at: "" },
    { name: "train/ess", resume: 0, step: 2, value: 0.9, at: "" },
    { name: "not/shown", resume: 0, step: 2, value: 1, at: "" },
  ];
  invalidator.applyEvent({ type: "metrics_added", run: 7, points });
  invalidator.applyEvent({ type: "metrics_added", run: 7, points });
  const series = queryClient.getQueryData<ReturnType<typeof makeSeries>[]>(key);
  expect(series?.map((one) => [one.name, one.points.map((point) => point.value)])).toEqual([
    ["reward/mean", [0.1, 0.2, 0.3]],
    ["train/ess", [0.9]],
  ]);
  expect(stale()).toEqual([]);
});

test("curves that the server smooths and buckets are fetched again when points come", () => {
  expect(staleKeys({ type: "metrics_added", run: 7, points: [] })).toEqual([
    ["run", 7, "series"],
    ["run", 7, "metric-names"],
  ]);
});

test("a point of another life is kept beside the old one", () => {
  const [series] = withPoints([makeSeries("reward/mean", [0.1])], [{ name: "reward/mean", resume: 1, step: 0, value: 0.4, at: "" }], ["reward/mean"]);
  expect(series?.points.length).toBe(2);
});

test("after a gap everything but the reader's identity is stale", async () => {
  const { invalidator, stale } = setUp();
  await invalidator.invalidateAll();
  expect(stale().length).toBe(KEYS.length - 1);
  expect(stale()).not.toContain("me");
});

test("the cursors of a beacon that moved name what may have been missed", () => {
  expect(staleKeysOfTopic("p1.run.7", ["metrics"])).toEqual([
    ["run", 7, "metrics"],
    ["run", 7, "series"],
    ["run", 7, "metric-names"],
  ]);
  expect(staleKeysOfTopic("p1.run.7", ["a_cursor_of_tomorrow"])).toEqual([["run", 7], ["trajectories", 7]]);
  expect(staleKeysOfTopic("p1.fleet", ["workers", "sandboxes_live"])).toEqual([["workers"], ["sandboxes"]]);
  expect(staleKeysOfTopic("p1.of.a.newer.server", ["x"])).toEqual([]);
});
