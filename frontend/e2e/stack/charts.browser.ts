/** The curves of a run and runs beside each other, against the demo data. */
import { readFileSync } from "node:fs";

import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";

import type { MetricName, Run } from "../../src/api/types";
import { demoRun, faultsOf, get, list, newPage, openPage, overflowOf } from "./session";

const search = (page: Page) => Object.fromEntries(new URL(page.url()).searchParams);
const panelOf = (page: Page, title: string) => page.locator("section").filter({ has: page.getByRole("heading", { name: title, exact: true, level: 2 }) });

async function openCharts(query = "", view = {}) {
  const run = await demoRun();
  const page = await openPage(`/runs/${run.id}/charts${query}`, view);
  return { run, page, reward: panelOf(page, "Reward") };
}

/** The rows of a panel's table, newest first: [place, value, smoothed]. */
async function rowsOf(panel: Locator): Promise<string[][]> {
  const rows = await panel.getByRole("table").getByRole("row").all();
  return Promise.all(rows.slice(1).map((row) => row.locator("th, td").allTextContents()));
}

test("a word finds curves by name, label or meaning; the axis and the smoothing are in the address, and Back restores", async () => {
  const { page, reward } = await openCharts();
  await reward.getByRole("img").waitFor();
  await page.getByRole("textbox", { name: "Search curves" }).fill("gradient before clipping");
  await panelOf(page, "Gradient norm").getByRole("img").waitFor();
  expect(await reward.count()).toBe(0);
  expect(search(page)).toEqual({ q: "gradient before clipping" });

  await page.getByRole("combobox", { name: "X axis" }).click();
  await page.getByRole("option", { name: "Trajectories consumed" }).click();
  await page.waitForURL((url) => url.searchParams.get("x") === "trajectories");
  await page.getByRole("combobox", { name: "Smoothing" }).click();
  await page.getByRole("option", { name: "Trailing median" }).click();
  await page.waitForURL((url) => url.searchParams.get("smooth") === "median:10");
  await panelOf(page, "Gradient norm").getByText("10-step median").waitFor();
  await page.goBack();
  await panelOf(page, "Gradient norm").getByText("10-step mean").waitFor();
  expect(search(page)).toMatchObject({ x: "trajectories" });
  expect(await faultsOf(page)).toEqual([]);
});

test("a range is zoomed by typing and by a drag over a chart; all charts follow and the table has that range", async () => {
  const { page, reward } = await openCharts("?q=reward%2Fmean");
  await reward.getByRole("img").waitFor();
  await reward.getByRole("button", { name: "Table" }).click();
  const all = await rowsOf(reward);
  const steps = all.map(([step]) => Number(step)).reverse();
  const [low = 0, high = 0] = [steps[1], steps[steps.length - 1]];
  await page.getByRole("textbox", { name: "Range from" }).fill(String(low));
  await page.getByRole("textbox", { name: "Range to" }).fill(String(high));
  await page.getByRole("button", { name: "Zoom" }).click();
  await page.waitForURL((url) => url.searchParams.get("from") === String(low) && url.searchParams.get("to") === String(high));
  await expect.poll(async () => (await rowsOf(reward)).length).toBe(all.length - 1);

  await page.getByRole("button", { name: "Whole range" }).click();
  await page.waitForURL((url) => !url.searchParams.has("from"));
  await reward.getByRole("button", { name: "Chart" }).click();
  const box = await reward.locator(".u-over").boundingBox();
  if (box === null) throw new Error("The chart has no place.");
  await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL((url) => url.searchParams.has("from") && url.searchParams.has("to"));
  const { from, to } = search(page);
  expect(Number(from)).toBeGreaterThan(steps[0] ?? 0);
  expect(Number(to)).toBeLessThan(high);
  expect(await page.getByRole("textbox", { name: "Range from" }).inputValue()).toBe(from);

  await page.goBack();
  await page.waitForURL((url) => !url.searchParams.has("from"));
  expect(await page.getByRole("textbox", { name: "Range from" }).inputValue()).toBe("");
});

test("the file of a curve has every point, and the table of its panel the effective ones", async () => {
  const { run, page, reward } = await openCharts("?q=reward%2Fmean");
  const { metrics } = await get<{ metrics: MetricName[] }>(`/runs/${run.id}/metric-names`);
  const stored = metrics.find((metric) => metric.name === "reward/mean")?.num_points ?? 0;
  const download = page.waitForEvent("download");
  await reward.getByRole("link", { name: "CSV of Reward" }).click();
  const file = await download;
  const lines = readFileSync(await file.path(), "utf8").trim().split(/\r?\n/);
  expect(file.suggestedFilename()).toBe(`series-${run.id}.csv`);
  expect(lines[0]).toBe("name,resume,step,at,x,value,is_superseded");
  expect(lines.length - 1).toBe(stored);

  await reward.getByRole("button", { name: "Table" }).click();
  const effective = lines.slice(1).map((line) => line.split(",")).filter((cells) => cells[6] === "0");
  expect((await rowsOf(reward)).map(([step]) => step)).toEqual(effective.map((cells) => cells[2]).reverse());
});

test("a picture is kept, one curve fills the page, and each redraw is measured", async () => {
  const { page, reward } = await openCharts("?q=reward%2Fmean");
  const download = page.waitForEvent("download");
  await reward.getByRole("button", { name: "PNG of Reward" }).click();
  expect((await download).suggestedFilename()).toBe("reward.png");
  await reward.getByRole("link", { name: "Expand Reward" }).click();
  await page.waitForURL((url) => url.searchParams.get("show") === "reward/mean");
  await page.getByRole("checkbox", { name: "p1–p99" }).check();
  await expect.poll(() => page.evaluate(() => performance.getEntriesByName("chart-redraw").length)).toBe(1);
  await page.getByRole("link", { name: "Close, back to all curves" }).click();
  await page.waitForURL((url) => !url.searchParams.has("show"));
});

test("nothing is asked for or drawn that is not near the window", async () => {
  const page = await newPage({ height: 700 });
  const asked: string[] = [];
  page.on("request", (request) => {
    if (new URL(request.url()).pathname.endsWith("/series")) asked.push(request.url());
  });
  const run = await demoRun();
  await page.goto(`/runs/${run.id}/charts`, { waitUntil: "networkidle" });
  await panelOf(page, "Reward").getByRole("img").waitFor();
  const [drawn, before] = [await page.locator("canvas").count(), new Set(asked).size];
  const { metrics } = await get<{ metrics: MetricName[] }>(`/runs/${run.id}/metric-names`);
  expect(drawn).toBeLessThan(metrics.length / 2);
  await page.locator("details").last().scrollIntoViewIfNeeded();
  await expect.poll(() => new Set(asked).size).toBeGreaterThan(before);
});

test.each([{}, { scheme: "dark" }, { width: 320 }] as const)("the curves are without fault in view %o", async (view) => {
  const { page, reward } = await openCharts("?clip=p1-p99&scale=symlog", view);
  await reward.getByRole("img").waitFor();
  expect(await faultsOf(page)).toEqual([]);
});

test.each([{}, { scheme: "dark" }, { width: 320 }] as const)("runs beside each other are without fault in view %o", async (view) => {
  const [first, second] = (await list<Run>("/runs?limit=100")).filter((run) => run.is_demo);
  if (first === undefined || second === undefined) throw new Error("The demo data has one run only.");
  const page = await openPage(`/runs/compare?ids=${first.id},${second.id}`, view);
  await page.getByRole("img", { name: /^Reward\./ }).waitFor();
  expect(await faultsOf(page)).toEqual([]);
});

test("a baseline and the curves are chosen, and the address keeps both", async () => {
  const [first, second] = (await list<Run>("/runs?limit=100")).filter((run) => run.is_demo);
  if (first === undefined || second === undefined) throw new Error("The demo data has one run only.");
  const page = await openPage(`/runs/compare?ids=${first.id},${second.id}&keys=train/entropy`);
  await page.getByRole("img", { name: /^Entropy\./ }).waitFor();
  await page.getByRole("radio", { name: `${first.name} · ${first.id} as baseline` }).check();
  await page.waitForURL((url) => url.searchParams.get("base") === String(first.id));
  await page.getByRole("combobox", { name: "Values" }).click();
  await page.getByRole("option", { name: "Difference to baseline" }).click();
  await page.getByText(`minus ${first.name} · ${first.id}`).waitFor();
  expect(search(page)).toMatchObject({ keys: "train/entropy", view: "difference" });
  const differing = page.getByRole("region", { name: "Recipe values" }).getByRole("rowheader");
  const few = await differing.count();
  await page.getByRole("checkbox", { name: "Only differences" }).uncheck();
  await expect.poll(() => differing.count()).toBeGreaterThan(few);
  expect(await overflowOf(page)).toBeLessThanOrEqual(0);
});

test("fewer than two runs, and one that there is not, are said in words", async () => {
  const run = await demoRun();
  const page = await openPage(`/runs/compare?ids=${run.id}`);
  await page.getByRole("heading", { name: "One run is not a comparison" }).waitFor();
  await page.goto(`/runs/compare?ids=${run.id},999999`);
  await page.getByText("There is no run 999999 in a project of yours").waitFor();
});
