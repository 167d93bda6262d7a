/** The trajectory table and the comparison of a group, on the demo data. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import type { Group, Trajectory, TrajectoryFacets } from "../../src/api/types";
import { complaintsOf, demoRun, faultsOf, firstOf, get, list, openPage, stackUrl } from "./session";

const address = (page: Page) => Object.fromEntries(new URL(page.url()).searchParams);
const ids = (page: Page) => page.locator("table[aria-label=Trajectories] tbody tr[data-row] td:first-child").allTextContents();

describe.skipIf(stackUrl === undefined)("trajectories", () => {
  test("a facet narrows list, totals and address; Back widens them again", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/trajectories`);
    const { facets, totals } = await get<TrajectoryFacets>(`/runs/${run.id}/trajectories/facets`);
    const unsolved = facets.outcome.find(({ value }) => value === "unsolved");

    await page.getByText(`${totals.count.toLocaleString("en-GB")} trajectories`).waitFor();
    await page.getByRole("button", { name: "Outcome" }).first().click();
    await page.getByRole("checkbox", { name: "Unsolved" }).click();
    await page.getByText(`${(unsolved?.count ?? 0).toLocaleString("en-GB")} trajectories`).waitFor();
    expect(address(page)).toEqual({ outcome: "unsolved" });
    expect(await page.locator("tbody").getByText("Solved", { exact: true }).count()).toBe(0);
    expect(await faultsOf(page)).toEqual([]);

    await page.keyboard.press("Escape");
    await page.goBack();
    await page.getByText(`${totals.count.toLocaleString("en-GB")} trajectories`).waitFor();
    expect(address(page)).toEqual({});
    await page.close();
  });

  test("the server sorts the whole list, and the address says how", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/trajectories`);
    await page.getByRole("columnheader", { name: "Turns" }).getByRole("button").click();
    await page.waitForURL(/sort=-turns/);
    const sorted = await list<Trajectory>(`/runs/${run.id}/trajectories?sort=-turns&limit=20`);
    await expect.poll(async () => (await ids(page)).slice(0, 20)).toEqual(sorted.map(({ id }) => String(id)));
    expect(await page.getByRole("columnheader", { name: "Turns" }).getAttribute("aria-sort")).toBe("descending");
    await page.close();
  });

  test("J, K and Enter walk the list and open a trajectory that knows it", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/trajectories?outcome=solved&sort=-turns`);
    const [, second] = await ids(page);
    await page.locator("tr[data-row='0']").focus();
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-row") === "1");
    await page.keyboard.press("k");
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-row") === "0");
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-row") === "1");
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/trajectories/${second ?? ""}\\?`));
    expect(address(page)).toMatchObject({ outcome: "solved", sort: "-turns" });
    await page.close();
  });

  test("an export has every row of the filter, in each format, as many as the totals say", async () => {
    const run = await demoRun();
    const filter = "outcome=unsolved,invalid";
    const page = await openPage(`/runs/${run.id}/trajectories?${filter}`);
    const { totals } = await get<TrajectoryFacets>(`/runs/${run.id}/trajectories/facets?${filter}`);
    await page.getByRole("button", { name: `Export ${totals.count.toLocaleString("en-GB")}` }).click();
    const link = async (name: string) => (await page.getByRole("menuitem", { name }).getAttribute("href")) ?? "";
    const fetched = async (path: string) => (await page.request.get(path)).body();

    const lines = (await fetched(await link("NDJSON, as the API has them"))).toString().trim().split("\n");
    expect(lines.length).toBe(totals.count);
    expect(new Set(lines.map((line) => (JSON.parse(line) as Trajectory).outcome))).toEqual(new Set(["unsolved", "invalid"]));
    const [header = "", ...rows] = (await fetched(await link("CSV"))).toString().trim().split("\r\n");
    expect(header).toContain("id,run,stage,group");
    expect(rows.filter((row) => /^\d+,/.test(row)).length).toBe(totals.count);
    expect((await fetched(await link("Parquet"))).subarray(0, 4).toString()).toBe("PAR1");
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });

  test("columns are chosen by the keyboard and kept in the address", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/trajectories`);
    await page.getByRole("button", { name: /^Columns/ }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("checkbox", { name: "Repository" }).focus();
    await page.keyboard.press("Space");
    await page.getByRole("columnheader", { name: "Repository" }).waitFor();
    expect(address(page).cols).toContain("repository");
    await page.close();
  });

  test("on a narrow screen the table scrolls in its box and the page does not", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/trajectories`, { width: 320, scheme: "dark" });
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });
});

describe.skipIf(stackUrl === undefined)("groups", () => {
  test("a group shows its members side by side, from the list by a key", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/groups?status=consumed`);
    await page.locator("tr[data-row='0']").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Side by side" }).waitFor();
    const id = Number(new URL(page.url()).pathname.split("/").at(-1));
    const { members } = await get<{ members: { trajectory: Trajectory }[] }>(`/groups/${id}`);
    expect(await page.getByRole("columnheader", { name: /^#/ }).count()).toBe(members.length);
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });

  test("a group that teaches nothing says why", async () => {
    const run = await demoRun();
    const group = await firstOf<Group>(`/runs/${run.id}/groups?zero_gradient=none_solved&limit=1`);
    const page = await openPage(`/runs/${run.id}/groups/${group.id}`, { scheme: "dark" });
    await page.getByText("Zero gradient: none solved.").waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });
});
