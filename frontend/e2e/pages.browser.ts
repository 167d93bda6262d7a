/**
 * Every page with a mocked API, wide and light, narrow and dark (FULL=1: the other two as well): no complaint in the
 * console (the strict policy included), nothing that axe finds, no page wider than its window. SHOTS=dir keeps pictures.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Server } from "node:http";

import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { launchChromium, listenForComplaints, mockApi, serveBuild } from "./browser";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const PAGES: Record<string, string> = {
  login: "/login",
  runs: "/runs",
  new: "/runs/new",
  overview: "/runs/7/overview",
  trajectories: "/runs/7/trajectories",
  groups: "/runs/7/groups",
  "run-sandboxes": "/runs/7/sandboxes",
  "run-failures": "/runs/7/failures",
  "run-engines": "/runs/7/engines",
  evals: "/runs/7/evals",
  events: "/runs/7/events",
  config: "/runs/7/config",
  transcript: "/trajectories/4012?turn=1",
  "failed-attempt": "/trajectories/4012?attempt=1",
  tests: "/trajectories/4012?tab=tests",
  timeline: "/trajectories/4012?tab=timeline",
  raw: "/trajectories/4012?tab=raw",
  sandboxes: "/sandboxes",
  failures: "/failures",
  "failure-group": "/failures/1?run=7",
  engines: "/engines",
  workers: "/workers",
};

const shots = process.env.SHOTS;
const only = process.env.PAGES?.split(",");
if (shots !== undefined) mkdirSync(shots, { recursive: true });

let served: { server: Server; url: string };
beforeAll(async () => {
  served = await serveBuild();
});
afterAll(() => {
  served.server.close();
});

const usual = [
  { width: 1440, scheme: "light" as const },
  { width: 320, scheme: "dark" as const },
];
const others = [
  { width: 1440, scheme: "dark" as const },
  { width: 390, scheme: "light" as const },
];
const views = process.env.FULL === undefined ? usual : [...usual, ...others];

describe.each(views)("at $width px, $scheme", ({ width, scheme }) => {
  let context: BrowserContext;
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    context = await launchChromium({ width, scheme });
    page = await context.newPage();
    await mockApi(page);
    complaints = listenForComplaints(page);
  });
  afterAll(() => context.close());

  for (const [name, path] of Object.entries(PAGES)) {
    if (only !== undefined && !only.includes(name)) continue;
    test(`${name} is whole`, async () => {
      complaints.length = 0;
      await page.goto(served.url + path);
      await page.waitForSelector("h1");
      await page.waitForLoadState("networkidle");
      await page.evaluate(() => document.fonts.ready);
      if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}-${width}-${scheme}.png`, fullPage: true });

      expect(complaints).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      // The source is ours, from node_modules; evaluate() is not held to the page's policy.
      await page.evaluate(axeSource);
      const found = await page.evaluate(async () => {
        // @ts-expect-error -- axe-core put itself on the window
        // eslint-disable-next-line @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-member-access
        const results: { violations: { id: string; nodes: { html: string }[] }[] } = await window.axe.run({
          runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
        });
        return results.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
      });
      expect(found).toEqual([]);
    });
  }
});
