/**
 * Every page on the demo data, in both themes, wide and narrow: no complaint in the console (the strict policy included),
 * nothing that axe finds, no page wider than its window. SHOTS=dir keeps pictures, PAGES=tail,charts takes some.
 */
import { mkdirSync } from "node:fs";

import { describe, expect, test } from "vitest";

import type { FailureGroup, Group, Run, RunDetail, Sandbox, Trajectory } from "../../src/api/types";
import { axeOf, demoRun, faultsOf, firstOf, get, list, openPage, overflowOf, stackUrl, type View } from "./session";

type Path = string | ((run: number) => Promise<string>);

const tab = (name: string): Path => (run) => Promise.resolve(`/runs/${run}/${name}`);
const solved = (search: string): Path => async (run) =>
  `/trajectories/${(await firstOf<Trajectory>(`/runs/${run}/trajectories?reward=gte:1&limit=1`)).id}${search}`;

const PAGES: Record<string, Path> = {
  login: "/login",
  runs: "/runs",
  new: "/runs/new",
  clone: (run) => Promise.resolve(`/runs/new?from_run=${run}`),
  compare: async (run) => `/runs/compare?ids=${[run, (await otherRun(run)).id].join(",")}`,
  overview: tab("overview"),
  charts: tab("charts"),
  steps: tab("steps"),
  tail: tab("tail"),
  trajectories: tab("trajectories"),
  groups: tab("groups"),
  group: async (run) => `/runs/${run}/groups/${(await firstOf<Group>(`/runs/${run}/groups?status=consumed&limit=1`)).id}`,
  "run-sandboxes": tab("sandboxes"),
  "run-failures": tab("failures"),
  "run-engines": tab("engines"),
  checkpoints: tab("checkpoints"),
  evals: tab("evals"),
  events: tab("events"),
  config: tab("config"),
  transcript: solved("?turn=1"),
  timeline: solved("?tab=timeline"),
  patch: solved("?tab=patch"),
  tests: solved("?tab=tests"),
  tokens: solved("?tab=tokens"),
  logs: solved("?tab=logs"),
  sandbox: solved("?tab=sandbox"),
  raw: solved("?tab=raw"),
  siblings: solved("?tab=siblings"),
  "failed-trajectory": async (run) => `/trajectories/${(await firstOf<Trajectory>(`/runs/${run}/trajectories?status=failed&limit=1`)).id}`,
  sandboxes: "/sandboxes",
  "one-sandbox": async (run) => `/sandboxes/${(await firstOf<Sandbox>(`/sandboxes?run=${run}&limit=1`)).id}`,
  failures: "/failures",
  "failure-group": async (run) => `/failures/${(await firstOf<FailureGroup>(`/failures?run=${run}&limit=1`)).id}?run=${run}`,
  engines: "/engines",
  workers: "/workers",
  limits: "/limits",
  "task-sets": "/task-sets",
  "task-set": async () => `/task-sets/${await taskSet()}`,
  task: async () => {
    const set = await taskSet();
    return `/task-sets/${set}/tasks/${(await firstOf<{ id: number }>(`/task-sets/${set}/tasks?limit=1`)).id}`;
  },
  "compare-evals": async (run) => `/evals/compare?arms=${(await evaluations(run)).slice(-2).join(",")}`,
};

async function taskSet(): Promise<number> {
  return (await firstOf<{ id: number }>("/task-sets?limit=1")).id;
}

async function otherRun(run: number): Promise<Run> {
  return (await list<Run>("/runs?limit=100")).find(({ id }) => id !== run) ?? demoRun();
}

async function evaluations(run: number): Promise<number[]> {
  return (await get<RunDetail>(`/runs/${run}`)).stages.filter(({ kind }) => kind === "eval").map(({ id }) => id);
}

const shots = process.env.SHOTS;
const only = process.env.PAGES?.split(",");
if (shots !== undefined) mkdirSync(shots, { recursive: true });

const checked: View[] = [{ width: 1440, scheme: "light" }, { width: 320, scheme: "dark" }];
const pictured: View[] = [1440, 390].flatMap((width) => [{ width, scheme: "light" }, { width, scheme: "dark" }] as const);

describe.skipIf(stackUrl === undefined).each(shots === undefined ? checked : pictured)("at $width px, $scheme", (view) => {
  for (const [name, path] of Object.entries(PAGES)) {
    if (only !== undefined && !only.includes(name)) continue;
    test(`${name} is whole`, async () => {
      const page = await openPage(typeof path === "string" ? path : await path((await demoRun()).id), view);
      await page.evaluate(() => document.fonts.ready);
      if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}-${view.width}-${view.scheme}.png`, fullPage: true });
      const faults = await faultsOf(page);
      await page.close();
      expect(faults).toEqual([]);
    });
  }

  test.each([
    ["a run that is not there", "/runs/999999999/overview"],
    ["an address that names no page", "/no/such/page"],
  ])("%s is told, with a way on", async (_, path) => {
    const page = await openPage(path, view);
    expect(await page.getByRole("main").getByRole("link").count()).toBeGreaterThan(0);
    // Its complaint is that nothing is there; the rest must be whole.
    expect([await overflowOf(page), await axeOf(page)]).toEqual([0, []]);
    await page.close();
  });
});
