import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test, vi } from "vitest";

import type { CanvasProps } from "../../components/MetricCanvas";
import { makeCurve, makeMe, makeMetricName, makeRunDetail, makeStage } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";
import { readIds } from "./search";

// jsdom draws nothing; what the drawing is asked for is in its place.
vi.mock("../../components/MetricCanvas", () => ({
  MetricCanvas: ({ label, curves, x }: CanvasProps) => (
    <div role="img" aria-label={label}>
      {x}: {curves.map((curve) => `${curve.label} ${curve.color} ${curve.prepared.mean.join(" ")}`).join("; ")}
    </div>
  ),
}));

const V1 = "*/api/v1";
const KNOWN = [7, 9];

function serve() {
  const asked: string[] = [];
  const unknown = () => HttpResponse.json({ type: "about:blank", status: 404, code: "not_found", title: "There is no such run.", errors: [] }, { status: 404 });
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/:run`, ({ params }) => {
      const id = Number(params.run);
      if (!KNOWN.includes(id)) return unknown();
      const result = { pass_at_1: id / 100, low: 0, high: 1, tasks: 60, attempts: 240, invalid: 0, valid_only: null, if_invalid_solved: null, paired: null };
      return HttpResponse.json(makeRunDetail({ id, name: `run-${id}`, stages: [makeStage({ result })] }));
    }),
    http.get(`${V1}/runs/:run/metric-names`, () =>
      HttpResponse.json({ metrics: [makeMetricName("reward/mean", { label: "Reward" }), makeMetricName("train/ess", { label: "ESS" })] }),
    ),
    http.get(`${V1}/runs/:run/series`, ({ request, params }) => {
      const query = new URL(request.url).searchParams;
      asked.push(`${String(params.run)} ${query.toString()}`);
      const values = [0.1, 0.2, Number(params.run) / 10];
      return HttpResponse.json({ x: "step", series: (query.get("name") ?? "").split(",").map((name) => makeCurve(name, values)) });
    }),
    http.get(`${V1}/runs/:run/recipe`, ({ params }) =>
      HttpResponse.json({ source: "", recipe: { name: "tiny", agent: { turn_cap: Number(params.run) * 10 }, seed: 1 } }),
    ),
  );
  return asked;
}

const row = async (name: string) => within(await screen.findByRole("table", { name: "Figures" })).getByRole("row", { name: new RegExp(name) });

test("ids are runs, each once; what is none is ignored", () => {
  expect(readIds("7,9,7,x,-1,0,2.5")).toEqual([7, 9]);
  expect(readIds(undefined)).toEqual([]);
});

test("fewer than two runs say how to choose some", async () => {
  serve();
  renderApp("/runs/compare?ids=7");
  expect(await screen.findByRole("heading", { name: "One run is not a comparison" })).toBeTruthy();
});

test("a run that is unknown is named, and the others are compared", async () => {
  serve();
  const { router } = renderApp("/runs/compare?ids=7,9,99");
  expect(await screen.findByText(/There is no run 99 in a project of yours/)).toBeTruthy();
  expect(await row("run-7 · 7")).toBeTruthy();
  await userEvent.click(screen.getByRole("link", { name: "Leave it out" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ ids: "7,9" }));
});

test("curves of all runs lie on one chart with one axis and smoothing, each with a hue of its own", async () => {
  const asked = serve();
  renderApp("/runs/compare?ids=7,9&x=tokens&smooth=median:5&keys=train/ess");
  const chart = await screen.findByRole("img", { name: /^ESS\./ });
  expect(chart.textContent).toBe("tokens: run-7 · 7 --run-1 0.1 0.2 0.7; run-9 · 9 --run-2 0.1 0.2 0.9");
  for (const id of KNOWN) expect(asked).toContain(`${id} x=tokens&smooth=median%3A5&name=train%2Fess`);
  expect(screen.queryByRole("img", { name: /^Reward\./ })).toBeNull();
});

test("a baseline gives each figure and each curve its difference", async () => {
  serve();
  const { router } = renderApp("/runs/compare?ids=7,9&keys=train/ess");
  await screen.findByRole("img", { name: /^ESS\./ });
  await userEvent.click(screen.getByRole("radio", { name: "run-7 · 7 as baseline" }));
  await waitFor(async () => expect((await row("run-9 · 9")).textContent).toContain("9.0 %+2.0 %"));
  expect((await row("run-9 · 9")).textContent).toContain("21equal");
  await router.navigate({ to: "/runs/compare", search: { ids: "7,9", keys: "train/ess", base: 7, view: "difference" } });
  await waitFor(() => expect(screen.getByRole("img", { name: /^ESS\./ }).textContent).toMatch(/^step: run-9 · 9 --run-2 0 0 0\.2\d*$/));
});

test("the recipe table shows what differs, and everything on demand", async () => {
  serve();
  const { router } = renderApp("/runs/compare?ids=7,9");
  const table = within(await screen.findByRole("region", { name: "Recipe values" }));
  expect(table.getAllByRole("rowheader").map((cell) => cell.textContent)).toEqual(["agent.turn_cap"]);
  expect(screen.getByText("1 of 3 values differ")).toBeTruthy();
  await userEvent.click(screen.getByRole("checkbox", { name: "Only differences" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ ids: "7,9", recipe: "all" }));
  expect(table.getAllByRole("rowheader").length).toBe(3);
});

test("curves that cannot be fetched say so, and the figures stay", async () => {
  serve();
  server.use(
    http.get(`${V1}/runs/9/metric-names`, () =>
      HttpResponse.json({ type: "about:blank", status: 500, code: "internal", title: "The server failed; its log says why.", errors: [] }, { status: 500 }),
    ),
  );
  renderApp("/runs/compare?ids=7,9");
  expect((await screen.findByRole("alert")).textContent).toContain("The server failed");
  expect(await row("run-9 · 9")).toBeTruthy();
});

test("a run is left out of the address and of the page", async () => {
  serve();
  const { router } = renderApp("/runs/compare?ids=7,9&base=9");
  await userEvent.click(await screen.findByRole("button", { name: "Leave out run-9 · 9" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ ids: "7" }));
});
