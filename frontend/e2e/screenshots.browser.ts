/**
 * The README's four pictures, light, of a real stack: `make screenshots`.
 *
 *     LONGTAIL_RUN=1 SCREENSHOTS=../docs/images LONGTAIL_LINK=… npm run e2e screenshots
 *
 * Without LONGTAIL_RUN they show the newest demo run, and the page says that it is one.
 */
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import type { Trajectory } from "../src/api/types";
import { complaintsOf, demoRun, firstOf, openPage } from "./stack/session";

const { SCREENSHOTS: folder } = process.env;

const PICTURES: Record<string, (run: number) => Promise<string>> = {
  runs: () => Promise.resolve("/runs"),
  overview: (run) => Promise.resolve(`/runs/${run}/overview`),
  tail: (run) => Promise.resolve(`/runs/${run}/tail`),
  inspector: async (run) => `/trajectories/${(await firstOf<Trajectory>(`/runs/${run}/trajectories?outcome=solved&sort=-turns&limit=1`)).id}`,
};

describe.skipIf(folder === undefined)("pictures", () => {
  test.each(Object.entries(PICTURES))("%s", async (name, path) => {
    const page = await openPage(await path((await demoRun()).id), { width: 1440, height: name === "runs" ? 400 : 960 });
    await page.getByRole("button", { name: /^Live updates: Live/ }).waitFor();
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: join(folder ?? "", `${name}.png`) });
    expect(complaintsOf(page)).toEqual([]);
    await page.close();
  });
});
