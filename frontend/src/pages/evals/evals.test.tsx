import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { Comparison, EvalCompare } from "../../api/types";
import { makeEvalArm, makeEvaluation, makeMe, makeRunDetail, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const arms = [makeEvalArm({ id: 12, stage: "base" }), makeEvalArm({ id: 15, stage: "rl" })];
const result = (index: 0 | 1, mean: number): Comparison["arms"][number] => ({
  arm: arms[index] ?? makeEvalArm(), num_tasks: 2, num_attempts: 4, num_valid: index === 0 ? 4 : 3, num_invalid: index, pass_at_1: { mean, low: 0, high: 1 },
  pass_at_k: [{ k: 1, at_least_one: mean, all: mean }, { k: 2, at_least_one: 0.5 + index / 2, all: index / 2 }],
  sensitivity: { unsolved: mean, excluded: mean, solved: Math.min(1, mean + 0.25 * index) },
});
const comparison: Comparison = {
  arms: [result(0, 0.25), result(1, 0.75)],
  tasks: [
    { task_id: 1, task_set: 3, task: "a", repository: "calc", attempts: [[0, 0], [1, 1]] },
    { task_id: 2, task_set: 3, task: "b", repository: "text", attempts: [[1, 0], [1, null]] },
  ],
  pairs: [{ first: 12, second: 15, difference: { mean: 0.5, low: 0, high: 1 }, p_value: 0.125, wins: ["a"], losses: [], num_ties: 1 }],
  repositories: [{ repository: "calc", num_tasks: 1, pass_at_1: [0, 1] }, { repository: "text", num_tasks: 1, pass_at_1: [0.5, 0.5] }],
};

function serve(found: EvalCompare) {
  const asked: string[] = [];
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/evals`, () => HttpResponse.json(page(arms))),
    http.get(`${V1}/evals/compare`, ({ request }) => {
      asked.push(new URL(request.url).searchParams.get("arms") ?? "");
      return HttpResponse.json(found);
    }),
  );
  return asked;
}

test("arms are set against one another, down to the single attempt", async () => {
  const asked = serve({ arms, differences: [], comparison });
  renderApp("/evals/compare?arms=12%2C15");
  const pairs = within(await screen.findByRole("table", { name: "Paired differences" }));
  expect(pairs.getAllByRole("row")[1]?.textContent).toBe("rl − base+50.0+0.0 … +100.00.125101");
  expect(asked).toEqual(["12,15"]);
  const matrix = within(screen.getByRole("table", { name: "Tasks and arms" }));
  expect(matrix.getAllByRole("img").map((dots) => dots.getAttribute("aria-label"))).toEqual([
    "0 of 2 solved", "2 of 2 solved", "1 of 2 solved", "1 of 2 solved, 1 invalid",
  ]);
  const arm = within(screen.getByRole("table", { name: "Arms" })).getAllByRole("row")[2];
  expect(arm?.textContent).toContain("100.0 %50.0 %");
  expect(screen.getByText("Wins of rl − base: 1")).toBeTruthy();
});

test("tasks are narrowed to those that an arm wins, in the address", async () => {
  serve({ arms, differences: [], comparison });
  const { router } = renderApp("/evals/compare?arms=12%2C15&show=losses");
  expect(await screen.findByText("No task of 2 is so")).toBeTruthy();
  await userEvent.click(screen.getByRole("combobox", { name: "Tasks" }));
  await userEvent.click(await screen.findByText("Wins of the last"));
  expect(router.state.location.search).toMatchObject({ show: "wins" });
  const matrix = within(await screen.findByRole("table", { name: "Tasks and arms" }));
  expect(matrix.getAllByRole("row")).toHaveLength(2);
});

test("arms that were measured differently are refused, and the page says how they differ", async () => {
  serve({ arms, comparison: null, differences: [{ field: "agent.turn_cap", values: ["80", "40"] }] });
  renderApp("/evals/compare?arms=12%2C15");
  expect(await screen.findByText("These evaluations cannot be compared")).toBeTruthy();
  const row = within(screen.getByRole("table", { name: "What differs" })).getAllByRole("row")[1];
  expect(row?.textContent).toBe("agent.turn_cap8040");
  expect(screen.queryByRole("table", { name: "Paired differences" })).toBeNull();
});

test("without an arm the page says what to choose", async () => {
  serve({ arms, comparison: null, differences: [] });
  renderApp("/evals/compare");
  expect(await screen.findByText("No arm is chosen")).toBeTruthy();
});

test("the evaluations of a run lead to their comparison", async () => {
  serve({ arms, comparison: null, differences: [] });
  server.use(
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/evals`, () => HttpResponse.json({ evaluations: [makeEvaluation({ id: 12 }), makeEvaluation({ id: 15, stage: "rl" }), makeEvaluation({ id: 16, stage: "late", num_scheduled: 0 })] })),
  );
  renderApp("/runs/7/evals");
  const link = await screen.findByRole("link", { name: "Compare these attempt by attempt" });
  expect(link.getAttribute("href")).toBe("/evals/compare?arms=12%2C15");
});
