import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { at, makeMe, makeRunDetail, makeStage, makeStep, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const attempt = {
  number: 1, status: "completed", created_at: at(0), started_at: at(1), finished_at: at(91), queue_s: 40, timings: { start: 1, llm: 60, exec: 20, verify: 2 },
  turns: { at: [1], llm: [60], exec: [20], version: [3] },
};
const tail = {
  stage: "rl-training", step: 21, step_index: 4, has_turns: true,
  groups: [{
    id: 1, index: 0, stage: "rl-training", task: { id: 1, key: "calc-1", repository: "calc" }, status: "consumed", opened_at: at(0), consumed_at: at(100),
    members: [{ id: 41, index: 0, outcome: "unsolved", stop_reason: "turn_cap", num_turns: 80, output_tokens: 900, attempts: [attempt], repeat: { command: "pytest", count: 40 } }],
  }],
};
const caps = { stage: "rl-training", outcome: [2, 2, 1, 0], turns: [8, 40, 80, 20], tokens: [1, 2, 3, 4], seconds: [360, 1800, 3600, 720] };

function serve(fields: object = {}) {
  const queries: string[] = [];
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail({ stages: [makeStage({ name: "rl-training", kind: "rl", started_at: at(0) })] }))),
    http.get(`${V1}/runs/7/steps`, () => HttpResponse.json(page([makeStep({ id: 21, index: 4 }), makeStep({ id: 20, index: 3 })]))),
    http.get(`${V1}/runs/7/metrics`, () => HttpResponse.json({ series: [] })),
    http.get(`${V1}/runs/7/tail`, ({ request }) => {
      queries.push(new URL(request.url).search);
      return HttpResponse.json({ ...tail, ...fields });
    }),
    http.get(`${V1}/runs/7/tail/caps`, () => HttpResponse.json(caps)),
  );
  return queries;
}

test("a cap says what it saves and what it loses, and the address holds it", async () => {
  serve();
  const { router } = renderApp("/runs/7/tail?cap=turns&at=20");
  expect((await screen.findByText("1 h", { selector: "b" })).closest("p")?.textContent).toBe(
    "1 h of 1.80 h saved (55.6 %), 1 of 2 solved lost, 2 cut. Solve rate of the valid 66.7 % → 33.3 %.",
  );
  fireEvent.change(screen.getByRole("slider", { name: "Cap on turns" }), { target: { value: "80" } });
  expect(screen.getByText("No cap: move the slider, or type one.")).toBeTruthy();
  await waitFor(() => expect(router.state.location.search).toEqual({ cap: "turns" }));
  fireEvent.change(screen.getByRole("spinbutton", { name: "Cap on turns, typed" }), { target: { value: "40" } });
  await waitFor(() => expect(router.state.location.search).toEqual({ cap: "turns", at: 40 }));
  expect(screen.getByText(/each had taken as long/)).toBeTruthy();
});

test("a straggler is named with what it waited for, and leads to its time line", async () => {
  serve();
  renderApp("/runs/7/tail");
  const table = await screen.findByRole("table", { name: "Stragglers" });
  expect(within(table).getByText("loop: one command 40 times")).toBeTruthy();
  expect(within(table).getByRole("link", { name: "41" }).getAttribute("href")).toBe("/trajectories/41?tab=timeline");
  expect(within(table).getByText("40 s")).toBeTruthy(); // the queue of the engine, apart from the model
});

test("steps are walked by their ids", async () => {
  const queries = serve();
  const { router } = renderApp("/runs/7/tail");
  fireEvent.click(await screen.findByRole("button", { name: "Step before" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ step: 20 }));
  await waitFor(() => expect(queries.at(-1)).toBe("?step=20"));
});

test("without groups the page says what it waits for", async () => {
  serve({ groups: [] });
  renderApp("/runs/7/tail");
  expect(await screen.findByText("No groups yet")).toBeTruthy();
});
