/**
 * Redraws of a long curve, in milliseconds, as the page measures them ("chart-redraw"): zooms by hand, and back.
 *
 *     node scripts/measure-chart.mjs URL STATE PATH CHROMIUM   (benchmarks/dashboard.py writes the storage state)
 */
import { chromium } from "playwright-core";

const ZOOMS = [[0.1, 0.9], [0.3, 0.7], [0.2, 0.5]];
const QUIET_MS = 700;

const [url, storageState, path, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
const page = await (await browser.newContext({ storageState, viewport: { width: 1440, height: 900 } })).newPage();
await page.addInitScript(() => {
  window.redraws = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (entry.name === "chart-redraw") window.redraws.push(entry.duration);
  }).observe({ type: "measure", buffered: true });
});
await page.goto(new URL(path, url).href);
const canvas = page.locator("main .uplot .u-over").first();
await canvas.waitFor({ timeout: 60_000 });
await page.waitForTimeout(QUIET_MS);
for (const [from, to] of ZOOMS) {
  const { x, y, width, height } = await canvas.boundingBox();
  await page.mouse.move(x + from * width, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + to * width, y + height / 2, { steps: 5 });
  await page.mouse.up();
  await page.waitForTimeout(QUIET_MS);
}
await canvas.dblclick();
await page.waitForTimeout(QUIET_MS);
console.log(JSON.stringify(await page.evaluate(() => window.redraws)));
await browser.close();
