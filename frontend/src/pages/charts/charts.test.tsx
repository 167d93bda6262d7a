import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test, vi } from "vitest";

import type { CanvasProps } from "../../components/MetricCanvas";
import { makeCurve, makeMe, makeMetricName, makeRunDetail } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

// jsdom draws nothing; what the drawing is asked for is in its place.
vi.mock("../../components/MetricCanvas", () => ({
  MetricCanvas: ({ label, curves, domain, clip, scale, x, hasGhosts, thresholds, onZoom }: CanvasProps) => (
    <div role="img" aria-label={label}>
      {JSON.stringify({ points: curves[0]?.prepared.x.length, domain, clip, scale, x, hasGhosts, thresholds })}
      <button type="button" onClick={() => onZoom?.([2.00000001, 3.4])}>
        drag
      </button>
      <button type="button" onClick={() => onZoom?.(null)}>
        double click
      </button>
    </div>
  ),
}));

const V1 = "*/api/v1";
const NAMES = [
  makeMetricName("reward/mean", { label: "Reward", group: "Reward", unit: "reward", population: "valid", definition: "Mean reward of a step." }),
  makeMetricName("train/grad_norm", { label: "Gradient norm", thresholds: [{ label: "clip", value: 1 }] }),
  makeMetricName("train/ess", { label: "Effective sample size", last: "NaN" }),
];

function serve(names = NAMES) {
  const asked: URLSearchParams[] = [];
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/metric-names`, () => HttpResponse.json({ metrics: names })),
    http.get(`${V1}/runs/7/series`, ({ request }) => {
      const query = new URL(request.url).searchParams;
      asked.push(query);
      const series = (query.get("name") ?? "").split(",").map((name) => makeCurve(name, [1, 2, 3], { central: { low: 1.02, high: 2.98 } }));
      return HttpResponse.json({ x: query.get("x") ?? "step", series });
    }),
  );
  return asked;
}

const chart = (name: string) => screen.findByRole("img", { name: new RegExp(`^${name}\\.`) });

test("every curve has a panel with its last value, unit, population and definition, in its group", async () => {
  const asked = serve();
  renderApp("/runs/7/charts");
  expect(await chart("Reward")).toBeTruthy();
  expect(screen.getByText("Training", { selector: "summary h2" })).toBeTruthy();
  expect(screen.getByText("over valid trajectories")).toBeTruthy();
  expect(screen.getByText("Mean reward of a step.")).toBeTruthy();
  expect(screen.getByText("NaN")).toBeTruthy();
  expect((await chart("Gradient norm")).textContent).toContain('"thresholds":[{"label":"clip","value":1}]');
  expect(asked.length).toBe(1);
  expect(asked[0]?.get("name")).toBe("reward/mean,train/grad_norm,train/ess");
});

test("a search is in the address, asks the server nothing new, and can be cleared", async () => {
  const asked = serve();
  const { router } = renderApp("/runs/7/charts");
  await userEvent.type(await screen.findByRole("textbox", { name: "Search curves" }), "grad");
  await waitFor(() => expect(router.state.location.search).toEqual({ q: "grad" }));
  expect(await chart("Gradient norm")).toBeTruthy();
  expect(screen.queryByRole("img", { name: /^Reward\./ })).toBeNull();
  await userEvent.type(screen.getByRole("textbox", { name: "Search curves" }), "xyz");
  await userEvent.click(await screen.findByRole("link", { name: "Show all 3" }));
  expect(await chart("Reward")).toBeTruthy();
  expect(asked.length).toBe(1);
});

test("the address says what is asked and how it is drawn", async () => {
  const asked = serve();
  renderApp("/runs/7/charts?x=elapsed&smooth=ema:0.5&from=60&to=120&scale=log&clip=p1-p99&ghosts=off");
  const text = (await chart("Reward")).textContent;
  expect(Object.fromEntries(asked[0] ?? [])).toMatchObject({ x: "elapsed", smooth: "ema:0.5", from: "60", to: "120", buckets: "400" });
  expect(text).toContain('"domain":[60,120],"clip":[1.02,2.98],"scale":"log","x":"elapsed","hasGhosts":false');
  expect(screen.getByRole("link", { name: "CSV of Reward" }).getAttribute("href")).toBe(
    "/api/v1/runs/7/series/export?name=reward%2Fmean&format=csv&x=elapsed&from=60&to=120",
  );
});

test("a range is zoomed by a drag or by typing, is in the address, and Back shows all again", async () => {
  serve([NAMES[0] ?? makeMetricName("a")]);
  const { router } = renderApp("/runs/7/charts");
  await userEvent.click(await screen.findByRole("button", { name: "drag" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ from: 2, to: 3.4 }));
  const range = await screen.findByRole("form", { name: "Range" });
  const from = within(range).getByRole("textbox", { name: "Range from" });
  await userEvent.clear(from);
  await userEvent.type(from, "3{Enter}");
  await waitFor(() => expect(router.state.location.search).toEqual({ from: 3, to: 3.4 }));
  router.history.back();
  await waitFor(() => expect(router.state.location.search).toEqual({ from: 2, to: 3.4 }));
  await userEvent.click(screen.getByRole("button", { name: "double click" }));
  await waitFor(() => expect(router.state.location.search).toEqual({}));
});

test("a range whose ends are swapped or no numbers is not sent", async () => {
  serve();
  const { router } = renderApp("/runs/7/charts?from=5&to=9");
  const to = await screen.findByRole("textbox", { name: "Range to" });
  for (const wrong of ["4", "many"]) {
    await userEvent.clear(to);
    await userEvent.type(to, `${wrong}{Enter}`);
    expect(screen.getByRole("button", { name: "Zoom" })).toHaveProperty("disabled", true);
  }
  expect(router.state.location.search).toEqual({ from: 5, to: 9 });
});

test("another axis forgets the range, because its numbers mean something else", async () => {
  serve();
  const { router } = renderApp("/runs/7/charts?from=5&to=9");
  await userEvent.click(await screen.findByRole("combobox", { name: "X axis" }));
  await userEvent.click(await screen.findByRole("option", { name: "Tokens trained" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ x: "tokens" }));
});

test("one curve fills the page with finer buckets; one that the run has not is said", async () => {
  const asked = serve();
  const { router } = renderApp("/runs/7/charts?show=train/ess");
  expect(await chart("Effective sample size")).toBeTruthy();
  expect(screen.queryByRole("img", { name: /^Reward\./ })).toBeNull();
  expect([asked[0]?.get("name"), asked[0]?.get("buckets"), asked.length]).toEqual(["train/ess", "1200", 1]);
  await router.navigate({ to: "/runs/$run/charts", params: { run: 7 }, search: { show: "train/nothing" } });
  expect(await screen.findByText("This run has no curve called train/nothing.")).toBeTruthy();
  expect(await chart("Reward")).toBeTruthy();
});

test("the table has the same values as the drawing", async () => {
  serve();
  renderApp("/runs/7/charts?q=reward");
  await chart("Reward");
  await userEvent.click(screen.getByRole("button", { name: "Table" }));
  const rows = within(screen.getByRole("table")).getAllByRole("row");
  expect(rows.map((row) => row.textContent)).toEqual(["stepReward10-step mean", "333", "222", "111"]);
});

test("a run without curves says when the first come", async () => {
  serve([]);
  renderApp("/runs/7/charts");
  expect(await screen.findByRole("heading", { name: "No curves yet" })).toBeTruthy();
});

test("a panel whose curve cannot be fetched says so in its place", async () => {
  serve();
  server.use(
    http.get(`${V1}/runs/7/series`, () =>
      HttpResponse.json({ type: "about:blank", status: 500, code: "internal", title: "The server failed; its log says why.", errors: [] }, { status: 500 }),
    ),
  );
  renderApp("/runs/7/charts?q=reward");
  expect((await screen.findByRole("alert")).textContent).toContain("The server failed; its log says why.");
  serve();
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await chart("Reward")).toBeTruthy();
});

test("a curve that has no place on the axis says so", async () => {
  serve();
  server.use(
    http.get(`${V1}/runs/7/series`, () => HttpResponse.json({ x: "tokens", series: [makeCurve("reward/mean", [], { num_unplaced: 16 })] })),
  );
  renderApp("/runs/7/charts?q=reward&x=tokens");
  expect(await screen.findByText("No point of this curve has a place on this axis")).toBeTruthy();
});
