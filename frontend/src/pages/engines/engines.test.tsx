import { screen, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { Engine } from "../../api/types";
import { makeEngine, makeMe, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

function serve(engines: Engine[]) {
  server.use(http.get("*/api/v1/me", () => HttpResponse.json(makeMe())), http.get("*/api/v1/engines", () => HttpResponse.json(page(engines))));
}

test("the engines together are a mean with the largest beside it, and skew is told", async () => {
  serve([
    makeEngine({ id: 1, index: 0, load: { running: 10, token_usage: 0.1, longest_tokens: 1000 } }),
    makeEngine({ id: 2, index: 1, version_skew: 1, weight_version: 21, num_restarts: 3, load: { running: 60, token_usage: 0.97, longest_tokens: 180_000 } }),
  ]);
  renderApp("/engines");
  const figures = (await screen.findByLabelText("Engines together")).textContent;
  expect(figures).toContain("KV cache53.5 %mean of 2; most 97.0 % on engine 1");
  expect(figures).toContain("most 180,000 on engine 1");
  expect(screen.getByText(/Version skew, run 7: 1 of 2 engines are behind the newest weights, by up to 1 version/)).toBeTruthy();
  const row = within(screen.getByRole("table", { name: "Engines" })).getAllByRole("row")[2];
  expect(row?.textContent).toContain("v21 / v22 (−1)");
});

test("an engine that says nothing has no figures, and those of a run that is over are its last", async () => {
  serve([makeEngine({ status: "gone", load: { running: 2 } })]);
  renderApp("/engines");
  const figures = (await screen.findByLabelText("Engines together")).textContent;
  expect(figures).toContain("mean of 1 as they ended");
  expect(figures).toContain("no engine says it");
});

test("without an engine the page says who starts them", async () => {
  serve([]);
  renderApp("/engines");
  expect(await screen.findByText("No engines")).toBeTruthy();
});
