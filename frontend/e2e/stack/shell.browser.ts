/** What is of every page: the palette, keys, the pill, going back; a walk by keyboard alone; text of an agent that is no page. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import type { Trajectory } from "../../src/api/types";
import { axeOf, complaintsOf, demoRun, faultsOf, firstOf, get, list, openPage, stackUrl } from "./session";

describe.skipIf(stackUrl === undefined)("in a browser", () => {
  test("the palette opens a trajectory by its number and the theme by its name", async () => {
    const run = await demoRun();
    const { id } = await firstOf<Trajectory>(`/runs/${run.id}/trajectories?limit=1`);
    const page = await openPage("/runs");
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Page, run/ }).waitFor();
    expect(await axeOf(page)).toEqual([]);
    await page.keyboard.type(`trajectory ${id}`);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/trajectories/${id}*`);

    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Page, run/ }).waitFor();
    await page.keyboard.type("theme dark");
    await page.keyboard.press("Enter");
    await page.locator("html[data-mantine-color-scheme=dark]").waitFor();
    await page.reload();
    await page.locator("html[data-mantine-color-scheme=dark]").waitFor();
    await page.evaluate(() => localStorage.clear());
    await page.close();
  });

  test("keys go, tell what they do and pause; the pill tells three clocks", async () => {
    const page = await openPage("/runs");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    expect(await axeOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor({ state: "detached" });
    await page.keyboard.type("gw");
    await page.waitForURL("**/workers");

    await page.keyboard.press(".");
    const pill = page.getByRole("button", { name: /^Live updates: Paused/ });
    await pill.click();
    await page.getByText("Producers: newest heartbeat of a worker").waitFor();
    expect(await axeOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("button", { name: /^Live updates: Live/ }).waitFor();
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });

  test("y copies an address that shows the same, and Back restores the filter", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/trajectories?status=failed`);
    await page.keyboard.press("y");
    await page.getByText("The address of this view is copied.").waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(`${stackUrl ?? ""}/runs/${run.id}/trajectories?status=failed`);

    await page.getByRole("link", { name: "Groups", exact: true }).click();
    await page.waitForURL("**/groups");
    await page.goBack();
    await page.waitForURL("**/trajectories?status=failed");
    await page.getByRole("table", { name: "Trajectories" }).getByText("Invalid").first().waitFor();
    await page.close();
  });

  test("the narrow page has its places in a drawer", async () => {
    const page = await openPage("/runs", { width: 320, scheme: "dark" });
    await page.getByRole("button", { name: "Navigation" }).click();
    await page.getByRole("link", { name: "Workers" }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "Workers" }).click();
    await page.waitForURL("**/workers");
    await page.close();
  });

  test("a keyboard alone goes from the list of runs to a turn of a trajectory", async () => {
    const run = await demoRun();
    const page = await openPage("/runs");
    await tabTo(page, `a:text-is("${run.name}")`);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/runs/${run.id}/overview`);
    await page.getByRole("link", { name: "Trajectories", exact: true }).waitFor();
    await tabTo(page, 'a:text-is("Trajectories")');
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/runs/${run.id}/trajectories*`);
    await page.getByRole("table", { name: "Trajectories" }).getByRole("row").nth(2).waitFor();
    await tabTo(page, "tbody tr");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/trajectories/*");
    await page.getByRole("heading", { name: "Turn 0", exact: true }).waitFor();
    await page.keyboard.press("]");
    await page.waitForURL("**turn=*");
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });

  test("what an agent wrote is text: no script runs, no control is hidden", async () => {
    const id = await hostileTrajectory();
    const page = await openPage("/runs");
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => {
      dialogs.push(dialog.message());
      dialog.dismiss().catch(() => undefined);
    });
    await page.goto(`/trajectories/${id}?tab=patch`);
    const main = page.getByRole("main");
    await main.getByText('<script>alert("a patch is text")</script>').first().waitFor();
    expect(await main.innerText()).toContain("⟨U+202E⟩");
    expect(await main.innerText()).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    expect(await main.locator("script, iframe, object, img").count()).toBe(0);
    expect([...dialogs, ...complaintsOf(page)]).toEqual([]);
    await page.close();
  });
});

/** A trajectory of the demo data whose patch holds a script and a control that turns the direction of text. */
async function hostileTrajectory(): Promise<number> {
  const run = await demoRun();
  for (const { id } of await list<Trajectory>(`/runs/${run.id}/trajectories?status=completed&limit=100`)) {
    if (JSON.stringify(await get(`/trajectories/${id}/patch`)).includes("a patch is text")) return id;
  }
  throw new Error("No patch of the demo data is hostile.");
}

/** Presses Tab until the control has the focus, and sees that the focus shows. */
async function tabTo(page: Page, selector: string): Promise<void> {
  for (let i = 0; i < 120; i += 1) {
    await page.keyboard.press("Tab");
    const focused = page.locator(`${selector}:focus`);
    if ((await focused.count()) === 0) continue;
    expect(await focused.evaluate((element) => getComputedStyle(element).outlineStyle)).not.toBe("none");
    return;
  }
  throw new Error(`Tab never came to ${selector}.`);
}
