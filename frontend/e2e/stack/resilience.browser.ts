/**
 * What breaks in the middle of a live page: the pill says so, and afterwards the page has everything once.
 * Needs a stack of its own to break: LONGTAIL_VAR and LONGTAIL_PYTHON, which tests/e2e/test_dashboard.py sets.
 */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";

import type { RunEvent } from "../../src/api/types";
import { demoRun, list, openPage } from "./session";

const { LONGTAIL_VAR: folder, LONGTAIL_PYTHON: python } = process.env;
const ROOT = join(import.meta.dirname, "../../..");

describe.skipIf(folder === undefined || python === undefined)("a live page", () => {
  test("says that the web server went, and has everything once when it is back", async () => {
    const page = await eventsOfDemoRun();
    await write(page, "before");
    kill("controlplane.asgi");
    await pill(page, /Reconnecting|Stale/);
    await write(page, "meanwhile");
    await isWhole(page, ["before", "meanwhile", "after"]);
  });

  test("has everything once though Valkey, which carries the messages, was restarted", async () => {
    const page = await eventsOfDemoRun();
    await write(page, "before Valkey");
    kill("valkey-server");
    await write(page, "without Valkey");
    await isWhole(page, ["before Valkey", "without Valkey", "with Valkey"]);
  });

  test("says that the network went, and has everything once when it is back", async () => {
    const page = await eventsOfDemoRun();
    await write(page, "online");
    await page.context().setOffline(true);
    await pill(page, /Reconnecting|Stale/);
    await write(page, "offline");
    expect(await page.getByText("offline 1", { exact: true }).count()).toBe(0);
    await page.context().setOffline(false);
    await isWhole(page, ["online", "offline", "online again"]);
  });

  test("stands still while it is paused, and has everything once when it goes on", async () => {
    const page = await eventsOfDemoRun();
    await page.keyboard.press(".");
    await pill(page, /Paused/);
    await write(page, "paused");
    await pill(page, /Paused \(\d+ waiting\)/);
    expect(await page.getByText("paused 1", { exact: true }).count()).toBe(0);
    await page.keyboard.press(".");
    await isWhole(page, ["paused", "continued"]);
  });
});

async function eventsOfDemoRun(): Promise<Page> {
  const page = await openPage(`/runs/${(await demoRun()).id}/events`);
  await pill(page, /Live$/);
  return page;
}

function pill(page: Page, state: RegExp): Promise<void> {
  return page.getByRole("button", { name: new RegExp(`^Live updates: .*${state.source}`) }).waitFor();
}

const LINES = 5;

/** Lines of the run's feed, as the scheduler writes them: one transaction each. */
async function write(page: Page, words: string): Promise<void> {
  const run = /\/runs\/(\d+)\//.exec(page.url())?.[1] ?? "";
  const code = `
from django.utils import timezone
from runs.models import Run
from runs.services.events import say
run = Run.objects.get(pk=${run})
for i in range(${LINES}):
    say(run, "note", f"${words} {i}", now=timezone.now())
`;
  await promisify(execFile)(python ?? "", ["manage.py", "shell", "--verbosity", "0", "-c", code], { cwd: ROOT });
}

/** All that was written is shown, each line once and in the order of the API; then what comes next arrives without a reload. */
async function isWhole(page: Page, written: string[]): Promise<void> {
  const last = written.at(-1) ?? "";
  await pill(page, /Live$/);
  await write(page, last);
  await page.getByText(`${last} ${LINES - 1}`, { exact: true }).waitFor();
  const expected = written.flatMap((words) => Array.from({ length: LINES }, (_, i) => `${words} ${i}`)).reverse();
  await expect.poll(() => linesOf(page, expected)).toEqual(expected);
  const run = await demoRun();
  const stored = (await list<RunEvent>(`/runs/${run.id}/events?limit=100`)).map(({ sentence }) => sentence);
  expect(stored.filter((sentence) => expected.includes(sentence))).toEqual(expected);
  await page.close();
}

async function linesOf(page: Page, expected: string[]): Promise<string[]> {
  const texts = await page.getByRole("main").getByRole("listitem").allInnerTexts();
  return texts.flatMap((text) => text.split("\n").map((line) => line.trim()).filter((line) => expected.includes(line)));
}

/** kill -9 of this stack's process whose command line holds the word; its supervisor starts another. */
function kill(word: string): void {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && isOurs(name, word));
  expect(pids.length).toBeGreaterThan(0);
  for (const pid of pids) process.kill(Number(pid), "SIGKILL");
}

function isOurs(pid: string, word: string): boolean {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
    return command.includes(word) && (command.includes(folder ?? "") || environment.includes(`LONGTAIL_VAR=${folder ?? ""}`));
  } catch {
    return false;
  }
}
