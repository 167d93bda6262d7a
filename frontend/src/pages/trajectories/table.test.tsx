import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { makeMe, makeRunDetail, makeTrajectory, makeTrajectoryFacets, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";

function serve() {
  const lists: Record<string, string>[] = [];
  const facets: Record<string, string>[] = [];
  const query = (request: Request) => Object.fromEntries(new URL(request.url).searchParams);
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/trajectories`, ({ request }) => {
      lists.push(query(request));
      return HttpResponse.json(page([makeTrajectory({ id: 2 }), makeTrajectory({ id: 1 })]));
    }),
    http.get(`${V1}/runs/7/trajectories/facets`, ({ request }) => {
      facets.push(query(request));
      return HttpResponse.json(makeTrajectoryFacets());
    }),
  );
  return { lists, facets };
}

test("a value of a facet is chosen by its count and becomes part of the address and the query", async () => {
  const { lists, facets } = serve();
  const { router } = renderApp("/runs/7/trajectories?sort=-duration&cols=outcome");
  await userEvent.click(await screen.findByRole("button", { name: "Stop reason" }));
  expect(await screen.findByText("30")).toBeTruthy();
  await userEvent.click(screen.getByRole("checkbox", { name: "turn cap" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ sort: "-duration", cols: "outcome", stop_reason: "turn_cap" }));
  await waitFor(() => expect(lists.at(-1)).toEqual({ sort: "-duration", stop_reason: "turn_cap", limit: "100" }));
  expect(facets.at(-1)).toEqual({ stop_reason: "turn_cap" }); // order and columns change no count
});

test("a range is typed, a header sorts, and all of it is in the address", async () => {
  serve();
  const { router } = renderApp("/runs/7/trajectories");
  await userEvent.click(await screen.findByRole("button", { name: "Turns" }));
  await userEvent.type(await screen.findByLabelText("From"), "8");
  await userEvent.click(screen.getByRole("button", { name: "Apply" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ turns: "gte:8" }));
  await userEvent.click(within(screen.getByRole("table")).getByRole("button", { name: "Took" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ turns: "gte:8", sort: "-duration" }));
});

test("totals and the export are of the whole filter, not of the rows that are loaded", async () => {
  serve();
  renderApp("/runs/7/trajectories?outcome=solved&is_zero_gradient=true&sort=-turns");
  expect((await screen.findByText("mean reward of the valid")).textContent).toBe("0.522 mean reward of the valid");
  await userEvent.click(screen.getByRole("button", { name: "Export 240" }));
  const link = await screen.findByRole("menuitem", { name: "CSV" });
  expect(link.getAttribute("href")).toBe("/api/v1/runs/7/trajectories/export?outcome=solved&is_zero_gradient=true&sort=-turns&format=csv");
});

test("a saved list is a link that keeps the chosen columns", async () => {
  serve();
  const { router } = renderApp("/runs/7/trajectories?cols=outcome,turns");
  await userEvent.click(await screen.findByRole("link", { name: "Infra failures" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ outcome: "invalid", sort: "failure", cols: "outcome,turns" }));
});
