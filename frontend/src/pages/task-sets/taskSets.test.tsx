import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { Task, TaskDetail, TaskSetDetail } from "../../api/types";
import { at, makeMe, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const me = http.get(`${V1}/me`, () => HttpResponse.json(makeMe()));
const set: TaskSetDetail = {
  id: 3, project: "default", name: "miniature-train", version: 2, split: "train", digest: "a".repeat(64), num_tasks: 10, num_repositories: 2, num_quarantined: 1,
  source: "recipes", baselines: {}, created_at: at(0), repositories: [{ name: "calc", num_tasks: 6 }, { name: "text", num_tasks: 4 }],
  buckets: { untried: 1, never: 2, sometimes: 3, always: 4 },
};
const task: Task = {
  id: 8, key: "calc-01", repository: "calc", difficulty: "easy", verify_timeout_s: 20, quarantined_at: null, quarantine_reason: "", num_trajectories: 9,
  num_valid: 8, num_solved: 2, solve_rate: 0.25, bucket: "sometimes", num_attempts: 10, num_failed_attempts: 2, infra_share: 0.2, last_seen_at: at(9),
};
const detail = (fields: Partial<TaskDetail> = {}): TaskDetail => ({
  ...task, instruction: "Repair it.\u202e<b>", setup: "", digest: "b".repeat(64), task_set: 3, task_set_name: "miniature-train@2", split: "train",
  steps: [
    { run: 7, stage: "rl", first_step: 0, last_step: 4, num_trajectories: 8, num_solved: 2 }, { run: 7, stage: "rl", first_step: 5, last_step: 9, num_trajectories: 0, num_solved: 0 },
  ],
  stages: [{ run: 7, run_name: "mine", stage: "rl", num_trajectories: 9, num_valid: 8, num_solved: 2, num_invalid: 1 }],
  failures: [{ stage: "exec", kind: "oom", num_attempts: 2 }], ...fields,
});

test("task sets say what they hold, and an installation without one says how to import", async () => {
  server.use(me, http.get(`${V1}/task-sets`, () => HttpResponse.json(page([set]))));
  renderApp("/task-sets");
  const row = within(await screen.findByRole("table", { name: "Task sets" })).getAllByRole("row")[1];
  expect(row?.textContent).toBe("miniature-train2train1021recipesaaaaaaaaaaaa" + (row?.lastElementChild?.textContent ?? ""));

  server.use(http.get(`${V1}/task-sets`, () => HttpResponse.json(page([]))));
  renderApp("/task-sets");
  expect(await screen.findByText(/manage\.py import_tasks/)).toBeTruthy();
});

test("a bucket of the curriculum is a filter of the tasks", async () => {
  const queries: string[] = [];
  server.use(me, http.get(`${V1}/task-sets/3`, () => HttpResponse.json(set)), http.get(`${V1}/task-sets/3/tasks`, ({ request }) => {
    queries.push(new URL(request.url).search);
    return HttpResponse.json(page([task]));
  }));
  const { router } = renderApp("/task-sets/3?is_quarantined=false");
  const curriculum = within(await screen.findByLabelText(/^Tasks by how often they are solved/));
  await userEvent.click(curriculum.getByRole("button", { name: "2" }));
  expect(router.state.location.search).toEqual({ is_quarantined: false, bucket: "never" });
  await waitFor(() => expect(queries.at(-1)).toBe("?is_quarantined=false&bucket=never&limit=100"));
  expect(within(screen.getByRole("table", { name: "Tasks" })).getByText("25.0 %")).toBeTruthy();
});

test("a task shows its instruction as text and its rate with the population, and a bucket without one has no bar", async () => {
  server.use(me, http.get(`${V1}/task-sets/3/tasks/8`, () => HttpResponse.json(detail())));
  renderApp("/task-sets/3/tasks/8");
  expect((await screen.findByRole("region", { name: "instruction" })).textContent).toBe("Repair it.⟨U+202E⟩<b>");
  const chart = screen.getByRole("img", { name: /^Solve rate by step: steps 0–4 25\.0 % of 8; steps 5–9 none of 0/ });
  expect(chart.querySelectorAll("rect")).toHaveLength(1);
  expect(screen.getByRole("link", { name: "exec: oom" }).getAttribute("href")).toBe("/failures?stage=exec&kind=oom");
});

test("a task goes into quarantine with a reason, and comes out again", async () => {
  let found = detail();
  const bodies: unknown[] = [];
  server.use(
    me,
    http.get(`${V1}/task-sets/3/tasks/8`, () => HttpResponse.json(found)),
    http.post(`${V1}/task-sets/3/tasks/8/quarantine`, async ({ request }) => {
      bodies.push(await request.json());
      found = detail({ quarantined_at: at(20), quarantine_reason: "flaky (ada)" });
      return HttpResponse.json(found);
    }),
  );
  renderApp("/task-sets/3/tasks/8");
  await userEvent.click(await screen.findByRole("button", { name: "Quarantine" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox", { name: /Reason/ }), "flaky");
  await userEvent.click(dialog.getByRole("button", { name: "Quarantine" }));
  expect(await screen.findByText(/flaky \(ada\)/)).toBeTruthy();
  expect(screen.getByRole("button", { name: "Lift the quarantine" })).toBeTruthy();
  expect(bodies).toEqual([{ reason: "flaky" }]);
});
