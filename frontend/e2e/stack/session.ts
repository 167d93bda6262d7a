/**
 * Debian's Chromium against a real stack, for the browser tests of this folder.
 *
 *     LONGTAIL_URL=http://127.0.0.1:8000 LONGTAIL_STATE=state.json npm run e2e pages
 *
 * LONGTAIL_STATE is a storage state of Playwright's (tests/e2e/test_dashboard.py writes one). For one file,
 * LONGTAIL_LINK does instead: the link that `manage.py login_link` prints. LONGTAIL_RUN is a run other than the newest demo run.
 *
 *     const page = await openPage(`/runs/${(await demoRun()).id}/tail`, { width: 320 });
 *     await page.getByRole("heading", …).waitFor();
 *     expect(await faultsOf(page)).toEqual([]);
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll } from "vitest";

import type { Run } from "../../src/api/types";

export type View = { width?: number; height?: number; scheme?: "light" | "dark" };

const { LONGTAIL_URL, LONGTAIL_LINK, LONGTAIL_STATE, LONGTAIL_RUN, CHROMIUM = "/usr/bin/chromium" } = process.env;
const ACTION_MS = 30_000;
/** React's strict mode, which only the development server has, opens the socket twice. */
const OF_STRICT_MODE = "WebSocket is closed before the connection is established";

/** Where the stack is; undefined if these tests have none. */
export const stackUrl = LONGTAIL_URL ?? (LONGTAIL_LINK === undefined ? undefined : new URL(LONGTAIL_LINK).origin);

let browser: Promise<Browser> | undefined;
let login: Promise<string | Awaited<ReturnType<BrowserContext["storageState"]>>> | undefined;
const contexts = new Map<string, Promise<BrowserContext>>();
const complaints = new WeakMap<Page, string[]>();

afterAll(async () => {
  await (await browser)?.close();
});

/** A page at a path of the dashboard, when nothing of it is loading any more. */
export async function openPage(path: string, view: View = {}): Promise<Page> {
  const page = await newPage(view);
  await page.goto(path, { waitUntil: "networkidle" });
  await page.locator("main :is(h1, h2)").first().waitFor();
  await page.waitForFunction(() => document.querySelector("[role=status][aria-label=Loading]") === null);
  await page.waitForLoadState("networkidle");
  return page;
}

/** An empty page of a logged-in person; pages of the same view share cookies and cache. */
export async function newPage(view: View = {}): Promise<Page> {
  const key = JSON.stringify(view);
  const context = contexts.get(key) ?? newContext(view);
  contexts.set(key, context);
  const page = await (await context).newPage();
  complaints.set(page, listen(page));
  return page;
}

async function newContext({ width = 1440, height = 900, scheme = "light" }: View): Promise<BrowserContext> {
  if (stackUrl === undefined) throw new Error("Name a stack: LONGTAIL_URL and LONGTAIL_STATE, or LONGTAIL_LINK.");
  browser ??= chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"],
  });
  login ??= LONGTAIL_STATE === undefined ? signIn(await browser, LONGTAIL_LINK ?? "") : Promise.resolve(LONGTAIL_STATE);
  const context = await (await browser).newContext({
    baseURL: stackUrl, viewport: { width, height }, colorScheme: scheme, timezoneId: "UTC", reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"],
    storageState: await login,
  });
  context.setDefaultTimeout(ACTION_MS);
  return context;
}

/** The link works once; all contexts share the session that it opened. */
async function signIn(chrome: Browser, link: string) {
  const context = await chrome.newContext();
  const page = await context.newPage();
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  const state = await context.storageState();
  await context.close();
  return state;
}

function listen(page: Page): string[] {
  const heard: string[] = [];
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    if (!message.text().includes(OF_STRICT_MODE)) heard.push(message.text());
  });
  page.on("pageerror", (error) => heard.push(String(error)));
  page.on("response", (response) => {
    if (response.status() >= 400) heard.push(`${response.status()} ${response.url()}`);
  });
  return heard;
}

/** What the page complained about since it was opened: errors, violations of the policy, requests that failed. */
export function complaintsOf(page: Page): string[] {
  return complaints.get(page) ?? [];
}

/** How many pixels the page is wider than its window. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/** What axe finds against WCAG 2.2 AA, one line a rule. */
export async function axeOf(page: Page): Promise<string[]> {
  // The source is ours, from node_modules; evaluate() is not held to the page's policy.
  await page.evaluate(axeSource);
  return page.evaluate(async (rules) => {
    // @ts-expect-error -- axe-core put itself on the window
    // eslint-disable-next-line @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-member-access -- axe has no types there
    const { violations }: { violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] } = await window.axe.run({ runOnly: rules });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 300)} ${node.failureSummary ?? ""}`).join(" | ")}`);
  }, RULES);
}

/** All that every page must be free of, in one list: complaints, sideways scrolling, findings of axe. */
export async function faultsOf(page: Page): Promise<string[]> {
  const overflow = await overflowOf(page);
  return [...complaintsOf(page), ...(overflow > 0 ? [`${overflow} px wider than the window`] : []), ...(await axeOf(page))];
}

/** An answer of the API to the person that is logged in. */
export async function get<Body>(path: string): Promise<Body> {
  const response = await (await sharedContext()).request.get(`/api/v1${path}`);
  if (!response.ok()) throw new Error(`${path}: ${response.status()} ${await response.text()}`);
  return (await response.json()) as Body;
}

function sharedContext(): Promise<BrowserContext> {
  const context = contexts.get("{}") ?? newContext({});
  contexts.set("{}", context);
  return context;
}

export async function list<Row>(path: string): Promise<Row[]> {
  return (await get<{ results: Row[] }>(path)).results;
}

/** The newest demo run, which `manage.py seed_demo` writes. */
export async function demoRun(): Promise<Run> {
  const runs = await list<Run>("/runs?limit=100");
  const found = runs.find((run) => (LONGTAIL_RUN === undefined ? run.is_demo : String(run.id) === LONGTAIL_RUN));
  if (found === undefined) throw new Error("There is no demo run: python manage.py seed_demo --scale 0.02");
  return found;
}

/** The first row of a list, which the demo data has. */
export async function firstOf<Row>(path: string): Promise<Row> {
  const [first] = await list<Row>(path);
  if (first === undefined) throw new Error(`The demo data has none: ${path}`);
  return first;
}
