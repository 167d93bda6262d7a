/** The list of runs and the launch page, against the demo data; nothing is launched. */
import { expect, test } from "vitest";

import { complaintsOf, demoRun, faultsOf, openPage } from "./session";

const search = (url: string) => Object.fromEntries(new URL(url).searchParams);

test("filters, order and columns of the list are in its address, and Back restores them", async () => {
  const run = await demoRun();
  const page = await openPage("/runs");
  const table = page.getByRole("table", { name: "Runs" });
  await page.getByRole("textbox", { name: "Name" }).fill(run.name);
  await page.waitForURL((url) => url.searchParams.get("name") === run.name);
  await table.getByRole("button", { name: /^Run/ }).click();
  await page.waitForURL((url) => url.searchParams.get("sort") === "name");
  await page.getByRole("button", { name: /^Columns/ }).click();
  await page.getByRole("checkbox", { name: "Seed" }).check();
  await page.keyboard.press("Escape");
  await table.getByRole("columnheader", { name: "Seed" }).waitFor();
  const address = page.url();
  expect(search(address)).toMatchObject({ name: run.name, sort: "name", cols: expect.stringContaining("seed") as string });

  await table.getByRole("link", { name: run.name, exact: true }).first().click();
  await page.getByRole("heading", { name: run.name, level: 1 }).waitFor();
  await page.getByText("Demo data", { exact: true }).waitFor();
  await page.goBack();
  await table.getByRole("columnheader", { name: "Seed" }).waitFor();
  expect(page.url()).toBe(address);
  expect(await page.getByRole("textbox", { name: "Name" }).inputValue()).toBe(run.name);
  expect(await faultsOf(page)).toEqual([]);
});

test("no run matches: the page says so and leads back to all", async () => {
  const page = await openPage("/runs?name=there-is-no-such-run");
  await page.getByRole("link", { name: "Show all runs" }).click();
  await page.getByRole("table", { name: "Runs" }).waitFor();
});

test("two selected runs are compared", async () => {
  const page = await openPage("/runs");
  const boxes = page.getByRole("table", { name: "Runs" }).getByRole("row").getByRole("checkbox");
  await boxes.nth(1).check();
  await boxes.nth(2).check();
  await page.getByRole("link", { name: "Compare 2 runs" }).click();
  await page.waitForURL(/\/runs\/compare\?ids=\d+/);
  expect(search(page.url()).ids?.split(",")).toHaveLength(2);
});

test("a clone is changed in its form, seen as a difference, checked, and refused at the field that is wrong", async () => {
  const run = await demoRun();
  const page = await openPage(`/runs/${run.id}/config`);
  await page.getByRole("link", { name: "New run from this recipe" }).click();
  const text = page.getByRole("textbox", { name: /YAML/ });
  const before = await text.inputValue();

  await page.getByText("model", { exact: true }).click();
  const path = page.getByLabel("path", { exact: true });
  await path.fill("nowhere/at/all");
  await expect.poll(() => text.inputValue()).not.toBe(before);
  await page.getByText("1 line added, 1 removed").waitFor();
  await page.getByRole("button", { name: "Check" }).click();
  const checks = page.getByRole("region", { name: "Check" });
  await checks.getByText("nowhere/at/all has no config.json", { exact: false }).waitFor();
  await page.getByRole("region", { name: "Dry run" }).waitFor();
  expect(await page.getByRole("button", { name: "Launch" }).isDisabled()).toBe(true);
  expect(await faultsOf(page)).toEqual([]);

  await page.reload();
  await page.getByText("Your draft is as you left it.").waitFor();
  await page.getByRole("button", { name: "Launch" }).click();
  await page.getByRole("alert").getByText("/model/path").waitFor();
  await expect.poll(() => path.evaluate((field) => field === document.activeElement)).toBe(true);
  expect(complaintsOf(page).filter((complaint) => !complaint.includes("422"))).toEqual([]);
  await page.getByRole("button", { name: /^Begin anew/ }).click();
  expect(await text.inputValue()).toBe(before);
});

test("text that is no YAML is told by line and column", async () => {
  const page = await openPage("/runs/new");
  await page.getByRole("textbox", { name: /YAML/ }).fill("name: a\nmodel: [1, 2\nseed: 3\n");
  await page.getByText(/^Line 3, column 1/).waitFor();
  expect(await page.getByRole("button", { name: "Launch" }).isDisabled()).toBe(true);
});

test("checkpoints and resumes of a run, and what cannot be started from says why", async () => {
  const run = await demoRun();
  const page = await openPage(`/runs/${run.id}/checkpoints`);
  await page.getByRole("table", { name: "Checkpoints" }).getByText("Complete").first().waitFor();
  const resume = page.getByRole("button", { name: "Resume from newest" });
  expect(await resume.getAttribute("aria-disabled")).toBe("true");
  await resume.hover();
  await page.getByText("Only a failed or cancelled run can be resumed", { exact: false }).waitFor();
  expect(await faultsOf(page)).toEqual([]);
});

test("the launch page is worked by keyboard alone", async () => {
  const run = await demoRun();
  const page = await openPage(`/runs/new?from_run=${run.id}`);
  await page.getByRole("combobox", { name: "Recipe" }).or(page.getByRole("textbox", { name: "Recipe", exact: true })).first().focus();
  for (let presses = 0; presses < 12; presses += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => document.activeElement?.textContent ?? "");
    if (name === "Check") break;
  }
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Check" }).waitFor();
});
