/**
 * A run in a real browser against a real stack, launch to inspector.
 *
 *     LONGTAIL_LINK=http://…/enter/… LONGTAIL_RECIPE=two-steps.yaml npm run e2e launch
 *
 * The link is of `manage.py login_link`; the recipe has at least one rl stage and ends by itself. Skipped without them.
 */
import { readFileSync } from "node:fs";

import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import { complaintsOf, newPage } from "./stack/session";

const link = process.env.LONGTAIL_LINK;
const recipe = process.env.LONGTAIL_RECIPE;
/** How long the run may take. */
const RUN_MS = Number(process.env.LONGTAIL_RUN_S ?? 480) * 1000;

describe.skipIf(link === undefined || recipe === undefined)("in a browser", () => {
  test("a run goes from launch to inspector without a reload", { timeout: RUN_MS + 300_000 }, async () => {
    const page = await newPage();
    await page.goto("/runs");
    await page.getByRole("button", { name: /^Live updates: Live/ }).waitFor();
    await launch(page);
    await followToTheEnd(page);
    await inspect(page);
    expect(complaintsOf(page)).toEqual([]);
  });
});

async function launch(page: Page): Promise<void> {
  await page.getByRole("link", { name: "New run" }).click();
  await page.getByRole("textbox", { name: /YAML/ }).fill(readFileSync(recipe ?? "", "utf8"));
  await page.getByLabel("Name", { exact: true }).fill("launched in Chromium");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByRole("region", { name: "Check" }).waitFor();
  await page.getByRole("button", { name: "Launch" }).click();
  await page.getByRole("heading", { name: "launched in Chromium" }).waitFor();
  expect(page.url()).toMatch(/\/runs\/\d+\/overview$/);
}

async function followToTheEnd(page: Page): Promise<void> {
  const loads: string[] = [];
  page.on("framenavigated", (frame) => loads.push(frame.url()));
  await page.locator("h1 + *", { hasText: /Succeeded|Failed|Cancelled/ }).waitFor({ timeout: RUN_MS });
  expect(await page.locator("h1 + *").innerText()).toBe("Succeeded");
  expect(loads).toEqual([]);
  // A point for each step is there, and the chart says so to who cannot see it.
  await page.getByRole("img", { name: /^Reward\. [1-9]\d* points/ }).waitFor();
}

async function inspect(page: Page): Promise<void> {
  await page.getByRole("link", { name: "Trajectories", exact: true }).click();
  const rows = page.getByRole("table", { name: "Trajectories" }).getByRole("row");
  await rows.nth(1).getByRole("link").click();
  await page.getByRole("heading", { name: "Turn 0" }).waitFor();
  await page.getByRole("region", { name: "action of turn 0" }).waitFor();
  await page.getByRole("link", { name: "Tests" }).click();
  await page.getByText(/^Reward (0|1)/).waitFor();
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.getByRole("img", { name: /llm/i }).waitFor();
  const before = page.url();
  await page.keyboard.press("j");
  await page.waitForURL((url) => url.href !== before);
}
