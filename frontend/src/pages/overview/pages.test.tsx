import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { beforeEach, expect, test, vi } from "vitest";

import { at, makeEvent, makeMe, makeRunDetail, makeSeries, makeStep, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";
import { makeBatchGroup, makeMember, makeOverview, makeStepDetail } from "./factories";

// There is no canvas here; what a chart says of itself is enough.
vi.mock("../../components/MetricCanvas", () => ({ MetricCanvas: ({ label }: { label: string }) => <div role="img" aria-label={label} /> }));

const V1 = "*/api/v1";
const steps = [
  makeStep({ id: 3, index: 2, resume: 1, reward_mean: 0.4, metrics: { "train/zero_gradient": 1 } }), makeStep({ id: 2, index: 2, status: "superseded" }),
  makeStep({ id: 1, index: 1, reward_mean: 0.2 }),
];
const events = [
  makeEvent({ id: 2, level: "warning", kind: "groups_stale", sentence: "3 groups were dropped\u202e: stale." }),
  makeEvent({ id: 1, kind: "run_started", sentence: "The run started." }),
];

beforeEach(() => {
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/overview`, () => HttpResponse.json(makeOverview())),
    http.get(`${V1}/runs/7/metrics`, ({ request }) => {
      const names = (new URL(request.url).searchParams.get("name") ?? "").split(",");
      return HttpResponse.json({ series: names.map((name) => makeSeries(name, [0.1, 0.2])) });
    }),
    http.get(`${V1}/runs/7/steps`, () => HttpResponse.json(page(steps))),
    http.get(`${V1}/runs/7/steps/:step`, () => HttpResponse.json(makeStepDetail({ groups: [makeBatchGroup({ members: [makeMember(), makeMember({ id: 9, index: 1, status: "failed", reward: null, advantage: null })] })] }))),
    http.get(`${V1}/runs/7/recipe`, () => HttpResponse.json({ source: "", recipe: RECIPE })),
    http.get(`${V1}/runs/7/events`, ({ request }) => {
      const query = new URL(request.url).searchParams;
      const found = events.filter(({ level, kind }) => (query.get("level") ?? level) === level && (query.get("kind") ?? kind) === kind);
      return HttpResponse.json(page(found));
    }),
    http.get(`${V1}/runs/7/event-kinds`, () => HttpResponse.json({ kinds: events.map(({ kind, level }) => ({ kind, level, num: 1 })) })),
  );
});

const RECIPE = {
  model: { path: "models/tiny", context_length: 448 }, task_sets: { train: "tiny-train" }, agent: { turn_token_cap: 14, token_cap: 448, turn_cap: 10 },
  rollout: { max_in_flight: 96 }, engines: { num_engines: 1, kind: "reference" }, sandbox: { driver: "local", memory_mb: 256 },
  trainer: { backend: "torch", checkpoint_every: 10 },
  stages: [{ kind: "rl", name: "rl-training", groups_per_step: 8, group_size: 8, num_steps: 30, max_staleness: 2, algorithm: { advantage: "grpo", learning_rate: 0.001, max_grad_norm: 1 } }],
};

test("the first screen says what the run waits for, at what rates, and what is wrong", async () => {
  renderApp("/runs/7/overview");
  const glance = within(await screen.findByRole("region", { name: "At a glance" }));
  expect(glance.getByText("Rollout-bound")).toBeTruthy();
  expect(glance.getByText("Training step 22: 3 of 8 groups are ready, the oldest open one has waited 11 s.")).toBeTruthy();
  expect(glance.getByText("1,100 / 930 per h")).toBeTruthy();
  expect(glance.getByText("Nothing found")).toBeTruthy();
  expect(glance.getByText("Too early to say")).toBeTruthy();
});

test("places of the topology lead to their pages, and its table has the same figures", async () => {
  renderApp("/runs/7/overview");
  const topology = within(await screen.findByRole("region", { name: "Topology" }));
  expect(topology.getByRole("link", { name: /Engines/ }).getAttribute("href")).toBe("/runs/7/engines");
  expect(topology.getAllByText("bottleneck")).toHaveLength(2);
  await userEvent.click(topology.getByRole("button", { name: "Table" }));
  expect(within(topology.getByRole("row", { name: /Buffer groups ready/ })).getByText("3 / 24")).toBeTruthy();
});

test("the population of the time split is part of the address", async () => {
  const { router } = renderApp("/runs/7/overview");
  const split = within(await screen.findByRole("region", { name: "Where the time goes" }));
  expect(split.getByText(/1,200 completed attempts/)).toBeTruthy();
  await userEvent.click(split.getByRole("radio", { name: "+ in flight" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ time: "with_in_flight" }));
  expect(split.getByText(/1,348 all finished attempts and those in flight/)).toBeTruthy();
});

test("a failure of a stage is text with its control characters visible, and leads to its group", async () => {
  renderApp("/runs/7/overview");
  const link = await screen.findByRole("link", { name: /3 × no answer within 20 s ⟨U\+202E⟩/ });
  expect(link.getAttribute("href")).toBe("/failures/5?run=7");
});

test("error rates of calls have their denominator", async () => {
  renderApp("/runs/7/overview");
  expect(await screen.findByText(/270 of 300,500 model calls failed \(0.09 %\)/)).toBeTruthy();
});

test("a run that has not begun says so instead of showing zeros", async () => {
  const nothing = makeOverview();
  server.use(
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail({ status: "queued", started_at: null, wait_sentence: "It waits for an engine.", stages: [] }))),
    http.get(`${V1}/runs/7/overview`, () =>
      HttpResponse.json({ ...nothing, verdict: { bound: "none", wait_share: null, num_steps: 0, sentence: "" }, balance: { produced_per_h: null, consumed_per_h: null, window_s: 0 }, funnel: [], drivers: [], lives: [], fates: [] }),
    ),
    http.get(`${V1}/runs/7/steps`, () => HttpResponse.json(page([]))),
  );
  renderApp("/runs/7/overview");
  expect(await screen.findByText("Not started yet")).toBeTruthy();
  expect(within(screen.getByRole("region", { name: "At a glance" })).getByText("It waits for an engine.")).toBeTruthy();
  expect(screen.getByText("– / – per h")).toBeTruthy();
  expect(screen.getAllByText("No sandbox yet")).toHaveLength(2);
  expect(screen.getByText("No RL trajectory yet")).toBeTruthy();
});

test("an overview that the server cannot give is told in its words, and tried again on demand", async () => {
  const title = "The server failed; its log says why.";
  server.use(http.get(`${V1}/runs/7/overview`, () => HttpResponse.json({ type: "about:blank", status: 500, code: "internal", title, errors: [] }, { status: 500 })));
  renderApp("/runs/7/overview");
  expect(await screen.findByText(title)).toBeTruthy();
  server.use(http.get(`${V1}/runs/7/overview`, () => HttpResponse.json(makeOverview())));
  await userEvent.click(screen.getByRole("button", { name: /again/i }));
  expect(await screen.findByRole("region", { name: "At a glance" })).toBeTruthy();
});

test("steps are a table, superseded ones stand back, and one opens to its batch", async () => {
  const { router } = renderApp("/runs/7/steps");
  const table = within(await screen.findByRole("table", { name: "Steps" }));
  expect(table.getAllByText("Superseded")).toHaveLength(1);
  expect(table.getByText("none")).toBeTruthy();
  await userEvent.click(table.getByText("0.400"));
  expect(await screen.findByRole("heading", { name: "Step 21" })).toBeTruthy();
  expect(router.state.location.search).toEqual({ step: 3 });
  const groups = within(screen.getByRole("region", { name: "Groups of the step" }));
  expect(groups.getByText("+0.730")).toBeTruthy();
  expect(groups.getByText("invalid")).toBeTruthy();
  expect(screen.getByText("NaN")).toBeTruthy();
});

test("two windows of steps compare from the address, and a wrong one is said", async () => {
  renderApp("/runs/7/steps?a=1&b=soon");
  const windows = within(await screen.findByRole("region", { name: "Two windows of steps" }));
  expect(windows.getByText("Two step numbers, as 1-20.")).toBeTruthy();
  const second = windows.getByRole("textbox", { name: "Second window" });
  await userEvent.clear(second);
  await userEvent.type(second, "2{Enter}");
  const reward = within(await windows.findByRole("row", { name: /^Reward/ }));
  expect(reward.getByText("+0.200")).toBeTruthy();
});

test("a run without a step says when the first one begins", async () => {
  server.use(http.get(`${V1}/runs/7/steps`, () => HttpResponse.json(page([]))));
  renderApp("/runs/7/steps");
  expect(await screen.findByRole("heading", { name: "No step yet" })).toBeTruthy();
});

test("events filter by level and kind in the address, and lead to what they name", async () => {
  const { router } = renderApp("/runs/7/events?level=warning");
  expect(await screen.findByText(/3 groups were dropped⟨U\+202E⟩: stale/)).toBeTruthy();
  expect(screen.queryByText("The run started.")).toBeNull();
  expect(screen.getByRole("link", { name: "dropped groups" }).getAttribute("href")).toBe("/runs/7/groups?status=dropped");
  await userEvent.click(screen.getByRole("combobox", { name: "Kind" }));
  await userEvent.click(await screen.findByRole("option", { name: "run started (1)" }));
  expect(await screen.findByRole("heading", { name: "No such event" })).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Show all events" }));
  expect(await screen.findByText("The run started.")).toBeTruthy();
  expect(router.state.location.search).toEqual({});
});

test("a finished run looks back", async () => {
  server.use(http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail({ status: "succeeded", wait_sentence: "", finished_at: at(500) }))));
  renderApp("/runs/7/overview");
  expect(await screen.findByText(/^Ended/)).toBeTruthy();
  expect(screen.getAllByText(/the trainer waited 6.0 of 10.0 s a step/).length).toBeGreaterThan(0);
});
