import { screen, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { Limit } from "../../api/types";
import { makeLimit, makeMe, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

function serve(limits: Limit[]) {
  server.use(http.get("*/api/v1/me", () => HttpResponse.json(makeMe())), http.get("*/api/v1/limits", () => HttpResponse.json(page(limits))));
}

test("the page begins with the limit that is nearest to its cap, and a cap nobody measured is no zero", async () => {
  serve([
    makeLimit({ id: 1, name: "networks", layer: "docker", scope: "", configured: 31, measured: null, peak: null, num_waiting: null }),
    makeLimit({ id: 2, configured: 100, measured: 88 }), makeLimit({ id: 3, name: "tokens", configured: 1_500_000, measured: 10, num_waiting: 0 }),
  ]);
  renderApp("/limits");
  expect(await screen.findByText("Nearest to its cap: max_in_flight (rollout, run 7) at 88.0 %.")).toBeTruthy();
  const [networks, inFlight, tokens] = within(screen.getByRole("table", { name: "Limits" })).getAllByRole("row").slice(1);
  expect(networks?.textContent).toContain("configured but never measured");
  expect(inFlight?.textContent).toContain("12 attempts queued");
  expect(tokens?.textContent).toContain("1,500,000");
  expect(tokens?.textContent).toContain("nobody");
});

test("without a limit the page says when they are measured", async () => {
  serve([]);
  renderApp("/limits");
  expect(await screen.findByText("No limits known")).toBeTruthy();
});
