/** The long tail: lanes by the keyboard, the cap by slider and by number. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import type { Step } from "../../src/api/types";
import { demoRun, faultsOf, list, openPage, stackUrl } from "./session";

const address = (page: Page) => Object.fromEntries(new URL(page.url()).searchParams);

describe.skipIf(stackUrl === undefined)("long tail", () => {
  test("the slider moves by the keyboard, says what a cap saves and loses, and the address keeps it", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/tail`);
    const slider = page.getByRole("slider", { name: "Cap on turns" });
    await slider.focus();
    await page.keyboard.press("Home");
    await page.getByText(/solved lost/).waitFor();
    await page.waitForURL(/at=1/);
    for (let i = 0; i < 7; i += 1) await page.keyboard.press("ArrowRight");
    await page.waitForURL(/at=8/);
    expect(await slider.getAttribute("aria-valuetext")).toBe("8 turns");
    await page.getByRole("spinbutton", { name: "Cap on turns, typed" }).fill("5");
    await page.waitForURL(/at=5/);
    expect(await slider.inputValue()).toBe("5");
    await page.reload({ waitUntil: "networkidle" });
    expect(await page.getByRole("slider").inputValue()).toBe("5");
    await page.getByText("Seconds", { exact: true }).click();
    await page.waitForURL(/cap=seconds/);
    expect(address(page)).toEqual({ cap: "seconds" });
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });

  test("lanes are walked by the keyboard, read out, and open a trajectory", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/tail`, { scheme: "dark" });
    await page.getByRole("listbox", { name: /^Groups on one axis/ }).focus();
    const first = await page.getByRole("option").textContent();
    await page.keyboard.press("j");
    await expect.poll(() => page.getByRole("option").textContent()).not.toBe(first);
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => page.getByRole("option").textContent()).toMatch(/, from .* to /);
    const id = /#(\d+)/.exec((await page.getByRole("option").textContent()) ?? "")?.[1] ?? "";
    expect(await faultsOf(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/trajectories/${id}`));
    await page.close();
  });

  test("a step is walked to and Back returns", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/tail`);
    await page.getByRole("button", { name: "Step before" }).click();
    await page.waitForURL(/step=\d+/);
    const steps = await list<Step>(`/runs/${run.id}/steps?limit=500`);
    expect(steps.map(({ id }) => String(id))).toContain(address(page).step);
    await page.goBack();
    await page.waitForURL((url) => !url.searchParams.has("step"));
    await page.close();
  });

  test("the table twin has a row for each lane", async () => {
    const run = await demoRun();
    const page = await openPage(`/runs/${run.id}/tail`, { width: 390 });
    const figure = page.getByRole("region", { name: "Groups on one axis" });
    const count = Number(/(\d+) lanes/.exec((await figure.getByRole("listbox").getAttribute("aria-label")) ?? "")?.[1]);
    await figure.getByRole("button", { name: "Table" }).click();
    expect(await figure.getByRole("row").count()).toBe(count + 1);
    expect(await faultsOf(page)).toEqual([]);
    await page.close();
  });
});
