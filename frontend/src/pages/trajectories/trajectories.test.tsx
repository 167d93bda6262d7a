import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { makeAttempt, makeMe, makeRunDetail, makeTrajectory, makeTrajectoryDetail, makeTrajectoryFacets, makeTurn, page } from "../../test/factories";
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

test("J and K walk the filtered list that the reader came from", async () => {
  const ids = [30, 20, 10];
  serve(
    http.get(`${V1}/runs/7/trajectories`, ({ request }) => {
      expect(new URL(request.url).searchParams.get("status")).toBe("failed");
      return HttpResponse.json(page(ids.map((id) => makeTrajectory({ id, status: "failed", reward: null }))));
    }),
    http.get(`${V1}/trajectories/:id`, ({ params }) => HttpResponse.json(makeTrajectoryDetail({ id: Number(params.id) }))),
    http.get(`${V1}/trajectories/:id/turns`, () => HttpResponse.json(page([makeTurn()]))),
  );
  const { router } = renderApp("/trajectories/20?status=failed");
  await screen.findByText("trajectory 20");
  await waitFor(() => expect(screen.getByRole("button", { name: /Next/ })).toHaveProperty("disabled", false));
  await userEvent.keyboard("j");
  await screen.findByText("trajectory 10");
  expect(router.state.location.search).toMatchObject({ status: "failed" });
  await userEvent.keyboard("kk");
  await screen.findByText(/trajectory (20|30)/);
});

test("what a model and a sandbox wrote is text", async () => {
  const hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>";
  serve(
    http.get(`${V1}/runs/7/trajectories`, () => HttpResponse.json(page([]))),
    http.get(`${V1}/trajectories/4012`, () => HttpResponse.json(makeTrajectoryDetail({ instruction: hostile }))),
    http.get(`${V1}/trajectories/4012/turns`, () => HttpResponse.json(page([makeTurn({ action: hostile, command: hostile, observation: `${hostile}\u001b[2J` })]))),
  );
  renderApp("/trajectories/4012");
  expect(await screen.findByText(`${hostile}^[[2J`)).toBeTruthy();
  expect(screen.getAllByText(hostile)).toHaveLength(3); // outline, action, instruction
  expect(document.querySelector("#content img, #content script, img, body script")).toBeNull();
});

test("a failed attempt shows its failure and no reward, beside the attempt that counts", async () => {
  const failure = { stage: "infer", kind: "infer_infra", message: "connection refused" };
  const attempts = [
    makeAttempt({ id: 1, number: 1, status: "failed", reward: null, failure, grade: {}, stop_reason: "" }),
    makeAttempt({ id: 2, number: 2, reward: 1 }),
  ];
  serve(
    http.get(`${V1}/runs/7/trajectories`, () => HttpResponse.json(page([]))),
    http.get(`${V1}/trajectories/4012`, () => HttpResponse.json(makeTrajectoryDetail({ attempts, num_attempts: 2 }))),
    http.get(`${V1}/trajectories/4012/turns`, ({ request }) => {
      expect(new URL(request.url).searchParams.get("attempt")).toBe("1");
      return HttpResponse.json(page([]));
    }),
  );
  renderApp("/trajectories/4012?attempt=1");
  expect(await screen.findByText(/The infrastructure failed at infer/)).toBeTruthy();
  expect(within(screen.getByLabelText("Facts")).getByText("invalid")).toBeTruthy();
  expect(await screen.findByText("No turns")).toBeTruthy();
});
