import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { makeMe, makeRunDetail, makeTrajectory, makeTrajectoryFacets, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";

function serve(...handlers: Parameters<typeof server.use>) {
  server.use(
    ...handlers,
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/trajectories/facets`, () => HttpResponse.json(makeTrajectoryFacets())),
  );
}

test("an invalid trajectory is shown as invalid, never as a zero", async () => {
  const failure = { stage: "infer", kind: "infer_infra", message: "connection refused" };
  serve(
    http.get(`${V1}/runs/7/trajectories`, () =>
      HttpResponse.json(page([
        makeTrajectory({ id: 1, status: "failed", attempt_status: "failed", reward: null, failure, stop_reason: "" }),
        makeTrajectory({ id: 2, reward: 0 }),
      ])),
    ),
  );
  renderApp("/runs/7/trajectories");
  const row = async (id: string) => {
    const found = (await screen.findByRole("link", { name: id })).closest("tr");
    if (found === null) throw new Error("no row");
    return within(found);
  };
  const failed = await row("1");
  expect(failed.getByText("Invalid")).toBeTruthy();
  expect(failed.getByText("invalid")).toBeTruthy();
  expect(failed.queryByText("0")).toBeNull();
  expect(failed.getByText("infer: infer infra")).toBeTruthy();
  const unsolved = await row("2");
  expect(unsolved.getByText("Unsolved")).toBeTruthy();
  expect(unsolved.getByText("0")).toBeTruthy();
});

test("the address of the list is the query of the API", async () => {
  const queries: string[] = [];
  serve(
    http.get(`${V1}/runs/7/trajectories`, ({ request }) => {
      queries.push(new URL(request.url).search);
      return HttpResponse.json(page([]));
    }),
  );
  const { router } = renderApp("/runs/7/trajectories?status=completed&reward=lt%3A1&group=311&unknown=x");
  await screen.findByText("No trajectory matches");
  expect(Object.fromEntries(new URLSearchParams(queries[0]))).toEqual({ status: "completed", reward: "lt:1", group: "311", limit: "100" });

  await userEvent.click(screen.getByRole("button", { name: "group 311: any group" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ status: "completed", reward: "lt:1" }));
  expect(queries.at(-1)).not.toContain("group");
});
