/** What runs underneath, on the demo data: boxes, failures, engines, limits, tasks and evaluations compared. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import type { EvalArm, FailureGroup, Run, Sandbox, TaskSet } from "../../src/api/types";
import { complaintsOf, demoRun, firstOf, get, list, openPage, overflowOf, stackUrl } from "./session";

const table = (page: Page, name: string) => page.getByRole("table", { name, exact: true });

async function say(page: Page, command: string, reason: string): Promise<void> {
  await page.getByRole("button", { name: command, exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Reason" }).fill(reason);
  await dialog.getByRole("button", { name: command, exact: true }).click();
  await dialog.waitFor({ state: "hidden" });
}

describe.skipIf(stackUrl === undefined)("the fleet", () => {
  test("boxes are a carpet, a list that filters by its address, and lives that say what failed", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/sandboxes`);
    await page.getByRole("img", { name: /^Slots over time: up to [\d,]+ sandboxes at once/ }).waitFor();
    const carpet = page.getByRole("region", { name: "Slots over time" });
    await carpet.getByRole("button", { name: "Table" }).click();
    expect(await carpet.getByRole("row").count()).toBeGreaterThan(10);

    const all = await table(page, "Sandboxes").getByRole("row").count();
    await page.getByRole("combobox", { name: "State" }).click();
    await page.getByRole("option", { name: "Failed", exact: true }).click();
    await page.waitForURL(/status=failed/);
    await table(page, "Sandboxes").getByText("Gone").first().waitFor({ state: "detached" });
    await page.goBack();
    await table(page, "Sandboxes").getByText("Gone").first().waitFor();
    expect(await table(page, "Sandboxes").getByRole("row").count()).toBe(all);

    const failed = await failedBox(run);
    await page.goto(`/sandboxes/${failed.id}`);
    const life = page.getByRole("list", { name: "Life of the sandbox" });
    await life.getByText("Failed").waitFor();
    expect(await life.getByRole("listitem").count()).toBe(8);
    await page.getByRole("heading", { name: "Effect on training" }).waitFor();
    await page.getByRole("link", { name: "this group" }).click();
    await page.getByRole("heading", { name: "Why these are one group" }).waitFor();
    expect(complaintsOf(page)).toEqual([]);
  });

  test("a failure group is resolved and opened again, each with a reason that stays", async () => {
    const group = await firstOf<FailureGroup>("/failures?state=ongoing,new&limit=1");
    const page = await openPage(`/failures/${group.id}`);
    await say(page, "Resolve", "a new image is out");
    await page.getByText("“a new image is out”").waitFor();
    expect((await get<FailureGroup>(`/failures/${group.id}`)).state).toBe("resolved");
    await say(page, "Reopen", "it is not");
    await page.getByRole("button", { name: "Resolve" }).waitFor();
    expect((await get<FailureGroup>(`/failures/${group.id}`)).state).toBe(group.state);
    expect(complaintsOf(page)).toEqual([]);
  });

  test("failure groups are filtered by state, and each state of the demo data has one", async () => {
    const groups = await list<FailureGroup>("/failures?limit=100");
    const states = new Set(groups.map((group) => group.state));
    const page = await openPage("/failures?state=regressed");
    const rows = table(page, "Failure groups").getByRole("row");
    expect(await rows.count()).toBe(1 + groups.filter((group) => group.state === "regressed").length);
    expect([...states].sort()).toEqual(expect.arrayContaining(["ignored", "ongoing", "regressed", "resolved"]));
  });

  test("engines, queues and limits say what they know, narrow too", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/engines`, { width: 390 });
    await page.getByText(/mean of \d+ as they ended; most/).first().waitFor();
    await page.goto("/workers");
    await table(page, "Queues").getByText("control").waitFor();
    expect(await table(page, "Queues").getByRole("row").count()).toBe(6);
    await page.goto("/limits");
    await page.getByText(/^Nearest to its cap: /).waitFor();
    expect(await overflowOf(page)).toBeLessThanOrEqual(0);
    expect(complaintsOf(page)).toEqual([]);
  });

  test("a task is found by its bucket, and goes into quarantine and out again", async () => {
    const sets = await list<TaskSet>("/task-sets?limit=100");
    const set = sets.find((one) => one.split === "train" && one.name.includes("demo")) ?? sets[0];
    const page = await openPage(`/task-sets/${set?.id ?? 0}?is_quarantined=false`);
    await page.getByLabel(/^Tasks by how often they are solved/).getByRole("button").nth(2).click();
    await page.waitForURL(/bucket=sometimes/);
    await page.waitForLoadState("networkidle");
    await table(page, "Tasks").getByRole("link").first().click();
    await page.getByRole("heading", { name: "Instruction" }).waitFor();
    await page.getByRole("img", { name: /^Solve rate by step: / }).waitFor();
    await say(page, "Quarantine", "its tests are flaky");
    await page.getByText(/In quarantine since .*: its tests are flaky/).waitFor();
    await say(page, "Lift the quarantine", "they are not");
    await page.getByRole("button", { name: "Quarantine", exact: true }).waitFor();
    expect(complaintsOf(page)).toEqual([]);
  });

  test("evaluations of a run are compared attempt by attempt, and others are refused", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/evals`);
    await page.getByRole("link", { name: "Compare these attempt by attempt" }).click();
    await table(page, "Paired differences").waitFor();
    const numTasks = await table(page, "Tasks and arms").getAttribute("aria-rowcount");
    expect(await page.getByRole("img", { name: /^\d of \d solved/ }).count()).toBeGreaterThan(10);
    await page.getByRole("combobox", { name: "Tasks", exact: true }).click();
    await page.getByRole("option", { name: "Wins of the last" }).click();
    await page.waitForURL(/show=wins/);
    expect(await table(page, "Tasks and arms").getAttribute("aria-rowcount")).not.toBe(numTasks);

    const arms = await list<EvalArm>("/evals?limit=200");
    const own = arms.find((arm) => arm.run === run.id);
    const other = arms.find((arm) => arm.run !== run.id);
    await page.goto(`/evals/compare?arms=${own?.id ?? 0}%2C${other?.id ?? 0}`);
    await page.getByRole("heading", { name: "These evaluations cannot be compared" }).waitFor();
    await table(page, "What differs").locator("tbody tr").first().waitFor();
    expect(complaintsOf(page)).toEqual([]);
  });
});

/** A box whose attempt has a recorded failure. */
async function failedBox(run: Run): Promise<Sandbox> {
  for (const box of await list<Sandbox>(`/sandboxes?run=${run.id}&status=failed&limit=20`)) {
    const { failure } = await get<{ failure: unknown }>(`/sandboxes/${box.id}`);
    if (failure !== null) return box;
  }
  throw new Error("The demo data has no failed box with a failure.");
}
