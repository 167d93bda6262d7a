/** The inspector on the demo data: every tab, a deep link, the search of the log, hostile text, a narrow window. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import type { Trajectory, TrajectoryDetail, Turn } from "../../src/api/types";
import { complaintsOf, demoRun, faultsOf, firstOf, get, newPage, openPage, overflowOf, stackUrl } from "./session";

const TABS = ["transcript", "timeline", "patch", "tests", "tokens", "logs", "sandbox", "raw", "siblings"] as const;

async function longest(): Promise<Trajectory> {
  const run = await demoRun();
  return firstOf<Trajectory>(`/runs/${run.id}/trajectories?status=completed&sort=-turns&limit=1`);
}

describe.runIf(stackUrl !== undefined)("the inspector", () => {
  test("every tab is whole, accessible and no wider than the window", async () => {
    const { id } = await longest();
    const page = await openPage(`/trajectories/${id}`);
    for (const tab of TABS) {
      await openTab(page, tab);
      expect(await faultsOf(page), tab).toEqual([]);
    }
    await page.close();
  });

  test("in the dark and on a telephone the panes stack, and nothing scrolls sideways", async () => {
    const { id } = await longest();
    const page = await openPage(`/trajectories/${id}`, { width: 320, scheme: "dark" });
    for (const tab of TABS) {
      await openTab(page, tab);
      expect(await overflowOf(page), tab).toBeLessThanOrEqual(0);
    }
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });

  test("a link to a turn opens at it, and keys walk on", async () => {
    const { id, num_turns } = await longest();
    const middle = Math.floor(num_turns / 2);
    const page = await openPage(`/trajectories/${id}?turn=${middle}`);
    await seen(page, middle);
    await page.keyboard.press("]");
    await page.waitForURL(`**/trajectories/${id}?*turn=${middle + 1}*`);
    await seen(page, middle + 1);
    await page.getByRole("navigation", { name: "Turns" }).getByRole("button").first().waitFor();
    expect(await page.locator("article[data-turn]").count()).toBeLessThan(num_turns);
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });

  test("the log is searched as a whole, and a hit is a link that opens at its line", async () => {
    const { id } = await longest();
    const page = await openPage(`/trajectories/${id}?tab=logs`);
    await page.getByRole("textbox", { name: "Search the log" }).fill("returncode");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Next hit" }).click();
    await page.waitForURL("**line=*");
    const line = new URL(page.url()).searchParams.get("line") ?? "";
    await page.reload({ waitUntil: "networkidle" });
    const row = page.getByRole("region", { name: /^Log/ }).locator("li[data-selected=true]");
    expect(await row.getByRole("button", { name: line, exact: true }).count()).toBe(1);
    expect(await row.locator("mark").first().innerText()).toBe("returncode");
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });

  test("a script, escapes, controls and a line of a megabyte are text, and the page stays quick", async () => {
    const { id } = await longest();
    const hostile = `<script>document.title="taken"</script>\u001b[31m \u202eevil\u202c \u0000\ufffd <img src=x onerror="document.title='taken'">`;
    const line = "x".repeat(65_000);
    const page = await newPage();
    await page.route("**/turns?*", async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as { results: Turn[] };
      for (const turn of body.results) Object.assign(turn, { action: hostile, action_length: hostile.length, observation: line, observation_length: 1_000_000 });
      await route.fulfill({ response: answer, json: body });
    });
    await page.route("**/text?*", async (route) => {
      const from = Number(new URL(route.request().url()).searchParams.get("from"));
      const text = "y".repeat(Math.min(262_144, 1_000_000 - from));
      await route.fulfill({ json: { part: "observation", start: from, length: 1_000_000, text } });
    });
    await page.goto(`/trajectories/${id}`, { waitUntil: "networkidle" });
    const turn = page.locator("article[data-turn='0']");
    await turn.getByText("^[[31m").first().waitFor();
    expect(await turn.innerText()).toContain("⟨U+202E⟩evil⟨U+202C⟩ ^@");
    await turn.getByRole("button", { name: /The first 63 KiB of 977 KiB/ }).click();
    await turn.getByRole("button", { name: "Load more" }).click();
    await turn.getByText("524,288 of 1,000,000 characters").waitFor();
    expect(await turn.locator("code").count()).toBeLessThan(200);
    expect(await page.getByRole("main").locator("script, iframe, object, img").count()).toBe(0);
    expect(await page.title()).not.toBe("taken");
    expect(await overflowOf(page)).toBeLessThanOrEqual(0);
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });

  test("an infrastructure failure is its own state, with its attempts to choose from", async () => {
    const run = await demoRun();
    const failed = await firstOf<Trajectory>(`/runs/${run.id}/trajectories?status=failed&limit=1`);
    const { attempts } = await get<TrajectoryDetail>(`/trajectories/${failed.id}`);
    const page = await openPage(`/trajectories/${failed.id}`);
    await page.getByRole("heading", { name: /The infrastructure failed at/ }).waitFor();
    if (attempts.length > 1) {
      await page.getByRole("navigation", { name: "Attempts" }).getByRole("link").first().click();
      await page.waitForURL("**attempt=1*");
    }
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });
});

async function openTab(page: Page, tab: string): Promise<void> {
  const name = tab.charAt(0).toUpperCase() + tab.slice(1);
  await page.getByRole("navigation", { name: "View" }).getByRole("link", { name, exact: true }).click();
  await page.waitForURL(`**tab=${tab}*`);
  await page.waitForLoadState("networkidle");
}

/** The turn's heading is in the window, below the bar. */
async function seen(page: Page, turn: number): Promise<void> {
  const heading = page.locator(`article[data-turn='${turn}'] h2`);
  await heading.waitFor();
  await page.waitForFunction((index) => {
    const top = document.querySelector(`article[data-turn='${index}']`)?.getBoundingClientRect().top ?? -1;
    return top >= 0 && top < innerHeight / 2;
  }, turn);
}
