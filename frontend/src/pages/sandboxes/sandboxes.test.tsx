import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { SandboxDetail, SandboxFleet } from "../../api/types";
import { at, makeFailure, makeMe, makeSandbox, page } from "../../test/factories";
import { problem } from "../../test/problem";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const me = http.get(`${V1}/me`, () => HttpResponse.json(makeMe()));

const fleet = (fields: Partial<SandboxFleet> = {}): SandboxFleet => ({
  counts: { requested: 1, starting: 2, ready: 0, leased: 44, stopping: 1, gone: 900, failed: 7 }, num_alive: 48, limit: 96, limit_source: "workers",
  num_orphans: 2, num_unsafe: 0,
  starts: [{ driver: "e2b", level: "microvm", num_boxes: 900, num_failed: 7, num_measured: 890, p50: 1.9, p90: 2.7, p99: 3.7, setup_p50: 7.5 }],
  ...fields,
});
const carpet = {
  stages: ["idle", "queued", "starting", "ready", "in use", "verifying", "stopping", "failed"], from_at: at(0), to_at: at(60), num_slots: 2,
  num_bins: 4, num_boxes: 3, num_left_out: 0, cells: btoa("\u0002\u0004\u0004\u0007\u0000\u0002\u0004\u0000"),
};

function serve(rows = [makeSandbox()], found = fleet()) {
  const queries: string[] = [];
  server.use(
    me,
    http.get(`${V1}/sandboxes/fleet`, () => HttpResponse.json(found)),
    http.get(`${V1}/sandboxes/carpet`, () => HttpResponse.json(carpet)),
    http.get(`${V1}/sandboxes`, ({ request }) => {
      queries.push(new URL(request.url).search);
      return HttpResponse.json(page(rows));
    }),
  );
  return queries;
}

test("the fleet says how many boxes live against the limit, and how long a start takes", async () => {
  serve([makeSandbox({ is_orphan: true, status: "leased", finished_at: null })]);
  renderApp("/sandboxes");
  const figures = await screen.findByLabelText("Sandboxes by state");
  expect(figures.textContent).toContain("Alive48 of 96");
  expect(within(screen.getByRole("table", { name: "Start latency by driver" })).getByText("3.7 s")).toBeTruthy();
  expect(screen.getByRole("img", { name: /^Slots over time: up to 2 sandboxes at once, 3 in all/ })).toBeTruthy();
  expect(within(screen.getByRole("table", { name: "Sandboxes" })).getByText("orphan")).toBeTruthy();
});

test("the carpet has its values as a table", async () => {
  serve();
  renderApp("/sandboxes");
  const section = within(await screen.findByRole("region", { name: "Slots over time" }));
  await userEvent.click(section.getByRole("button", { name: "Table" }));
  const rows = section.getAllByRole("row").slice(1).map((row) => within(row).getAllByRole("cell").slice(1).map((cell) => cell.textContent).join(" "));
  expect(rows).toEqual(["1 0 1 0 0 0 0 0", "0 0 1 0 1 0 0 0", "0 0 0 0 2 0 0 0", "1 0 0 0 0 0 0 1"]);
});

test("filters and order are in the address, and the server is asked with the same words", async () => {
  const queries = serve();
  const { router } = renderApp("/sandboxes?status=failed&driver=e2b");
  await screen.findByRole("table", { name: "Sandboxes" });
  expect(queries[0]).toBe("?status=failed&driver=e2b&limit=100");
  await userEvent.click(screen.getByLabelText("Orphans only"));
  expect(router.state.location.search).toMatchObject({ status: "failed", is_orphan: true });
  await userEvent.click(await screen.findByRole("button", { name: /^Start/ }));
  expect(router.state.location.search.sort).toMatch(/^-?start$/);
});

test("boxes without isolation are told before all else", async () => {
  serve([], fleet({ num_unsafe: 3 }));
  renderApp("/sandboxes");
  expect((await screen.findByRole("alert")).textContent).toContain("3 sandboxes ran without isolation");
  expect(await screen.findByText("No sandboxes yet")).toBeTruthy();
});

const detail = (fields: Partial<SandboxDetail> = {}): SandboxDetail => ({
  sandbox: makeSandbox({ id: 5, key: "sb-5", status: "failed", level: "unsafe" }),
  life: [
    { name: "admit", state: "done", seconds: 0.2 }, { name: "start", state: "done", seconds: 1.9 }, { name: "exec", state: "failed", seconds: 40 },
    { name: "verify", state: "not_reached", seconds: null },
  ],
  attempt: { id: 9001, number: 1, status: "failed", reward: null, trajectory_id: 4012, stage: "rl-training", task: "calc-0017", host: "box" },
  failure: makeFailure({ stage: "exec", kind: "oom", message: "the box hit its memory limit", evidence: { exit_code: 137, output: "compiling\nok\nKilled\nbye\u001b[31m" } }),
  policy: { retries: 1, waits: false, sentence: "Tried again once in a fresh sandbox, within the trajectory's own budget." },
  num_alike: 41, alike: [makeFailure({ id: 2 })],
  effect: {
    is_invalid: true, is_attributed_to_policy: false, later: { number: 2, status: "completed", reward: 1 }, trajectory_status: "completed", reward: 1,
    group: 311, group_status: "consumed", num_members: 8, num_ended: 8, num_valid: 8, required_valid: 4, is_group_usable: true,
    sentence: "Attempt 1 is invalid: no reward. Attempt 2 completed with reward 1. The group can still be used.",
  },
  ...fields,
});

test("a failed box says where, shows the first error of its evidence, and what became of its data", async () => {
  server.use(me, http.get(`${V1}/sandboxes/5`, () => HttpResponse.json(detail())));
  const { router } = renderApp("/sandboxes/5");
  const life = within(await screen.findByRole("list", { name: "Life of the sandbox" }));
  expect(life.getAllByRole("listitem").map((step) => step.textContent)).toEqual([" Admit200 msDone", " Start1.9 sDone", " Exec40 sFailed", " Verify–No figure"]);
  expect(screen.getByRole("alert").textContent).toContain("1 sandbox ran without isolation");
  expect(screen.getByText(/opened at line 3, the first that speaks of an error/)).toBeTruthy();
  const evidence = screen.getByRole("region", { name: "evidence" });
  expect(evidence.querySelector("[data-anchor]")?.textContent).toBe("3Killed");
  expect(evidence.textContent).toContain("bye^[[31m");
  expect(screen.getByText(/Attempt 2 completed with reward 1\. The group can still be used/)).toBeTruthy();
  expect(screen.getByText(/41 other failures of/)).toBeTruthy();
  await userEvent.click(screen.getByRole("link", { name: "line 1 of output" }));
  expect(router.state.location.search).toEqual({ line: 1 });
  expect(evidence.querySelector("[data-anchor]")?.textContent).toBe("1compiling");
});

test("a box that did its work has no failure to show", async () => {
  server.use(me, http.get(`${V1}/sandboxes/5`, () => HttpResponse.json(detail({ failure: null, policy: null, num_alike: 0, alike: [], sandbox: makeSandbox({ id: 5 }) }))));
  renderApp("/sandboxes/5");
  expect(await screen.findByText("No infrastructure failure is recorded for the attempt of this box.")).toBeTruthy();
  expect(screen.queryByRole("alert")).toBeNull();
});

test("a box of somebody else is told in the server's words", async () => {
  server.use(me, http.get(`${V1}/sandboxes/5`, () => problem(404, "not_found", "There is no sandbox 5 in a project of yours.")));
  renderApp("/sandboxes/5");
  expect(await screen.findByText(/There is no sandbox 5 in a project of yours/)).toBeTruthy();
});
