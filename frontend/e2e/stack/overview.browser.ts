/** The overview of a run, its steps and its events, on the demo data. */
import { describe, expect, test } from "vitest";

import type { Overview, Step } from "../../src/api/types";
import { demoRun, faultsOf, get, list, openPage, stackUrl } from "./session";

describe.skipIf(stackUrl === undefined)("the overview of a run", () => {
  test("the first screen answers four questions", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/overview`);
    const glance = page.getByRole("region", { name: "At a glance" });
    for (const question of ["Is it alive?", "What does it wait for?", "Does it learn?", "What is wrong?"]) {
      const box = await glance.getByRole("heading", { name: question }).boundingBox();
      expect(box?.y ?? Infinity, `${question} is on the first screen`).toBeLessThan(600);
    }
    expect(await glance.innerText()).toMatch(/(Rollout|Trainer)-bound|Balanced/);
    expect(await glance.innerText()).toMatch(/pass@1 \d+\.\d %/);
    expect(await faultsOf(page)).toEqual([]);
  });

  test("all nine figures of the article are there, drawn from the run", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/overview`, { scheme: "dark" });
    const figures = [
      "The loop of a trajectory", "Topology", "Recipe and versions", "Step breakdown", "Still running", "Sandbox stages", "Sandbox drivers", "Where the time goes",
      "Solve rate", "Reward", "Gradient norm", "Log-prob gap", "Effective sample size", "Response length", "Steps without a gradient", "Goodput", "Selection bias",
      "Cost and calls", "Resumes",
    ];
    for (const name of figures) {
      const figure = page.getByRole("region", { name, exact: true });
      await figure.scrollIntoViewIfNeeded();
      expect(await figure.innerText(), name).not.toMatch(/No (points|steps?|batch|sandbox|RL trajectory) yet/);
    }
    await page.getByRole("region", { name: /^Groups of step/ }).getByRole("listbox").press("ArrowDown");
    expect(await faultsOf(page)).toEqual([]);
  });

  test("fates, selection and time add up in what the server answers", async () => {
    const run = await demoRun();
    const overview = await get<Overview>(`/runs/${run.id}/overview`);
    const [finished, ...parts] = overview.selection;
    expect(parts.reduce((sum, { num }) => sum + num, 0)).toBe(finished?.num);
    expect(overview.fates.reduce((sum, { trajectories }) => sum + trajectories, 0)).toBe((finished?.num ?? 0) + (overview.fates.find(({ fate }) => fate === "open")?.trajectories ?? 0));
    for (const { parts: split } of overview.time) expect(split.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
  });

  test("a place of the topology opens its page, the population of the times stays in the address, and Back restores both", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/overview`);
    await page.getByRole("region", { name: "Where the time goes" }).getByText("All finished").click();
    await page.waitForURL(/time=finished$/);
    await page.getByRole("region", { name: "Topology" }).getByRole("link", { name: /^Engines/ }).click();
    await page.waitForURL(/\/engines/);
    await page.goBack();
    await page.waitForURL(/time=finished$/);
    await page.getByText(/completed, failed and cancelled attempts/).waitFor();
  });

  test("it fits 320 pixels and reads without a mouse", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/overview`, { width: 320 });
    const toggle = page.getByRole("region", { name: "Topology" }).getByRole("button", { name: "Table" });
    await toggle.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("cell", { name: "Buffer" }).first().waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(stackUrl === undefined)("the steps of a run", () => {
  test("a step opens from the table with the keyboard to its batch, and Back returns to the table", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/steps`);
    await page.getByRole("table", { name: "Steps" }).getByRole("row").nth(1).press("Enter");
    await page.waitForURL(/step=\d+/);
    await page.getByRole("heading", { name: /^Step \d+$/ }).waitFor();
    const [newest] = await list<Step>(`/runs/${run.id}/steps?limit=1`);
    expect(await page.getByRole("region", { name: "Groups of the step" }).getByRole("row").count()).toBe((newest?.num_groups ?? 0) + 1);
    expect(await faultsOf(page)).toEqual([]);
    await page.goBack();
    await page.getByRole("table", { name: "Steps" }).waitFor();
  });

  test("two windows compare, and the address keeps them", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/steps`);
    await page.getByRole("button", { name: "Compare windows" }).click();
    await page.waitForURL(/a=\d+.*b=\d+/);
    await page.reload();
    await page.getByRole("region", { name: "Two windows of steps" }).getByRole("row", { name: /^Reward/ }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });
});

describe.skipIf(stackUrl === undefined)("the events of a run", () => {
  test("a kind filters them, and what they name is a click away", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/events`);
    const kind = page.getByRole("combobox", { name: "Kind" });
    await kind.click();
    await page.getByRole("option", { name: /^stage succeeded/ }).click();
    await page.waitForURL(/kind=stage_succeeded/);
    await page.getByRole("link", { name: "evaluations" }).first().click();
    await page.waitForURL(/\/evals/);
    await page.goBack();
    await page.waitForURL(/kind=stage_succeeded/);
    expect(await faultsOf(page)).toEqual([]);
  });
});
