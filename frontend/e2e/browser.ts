/** Debian's Chromium, and the built dashboard with a mocked API behind it. */
import { createServer, type Server } from "node:http";
import { readFileSync } from "node:fs";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

import { getResponse } from "msw";
import { type BrowserContext, chromium, type Page } from "playwright-core";

import { handlers } from "../src/test/mockApi";

const DIST = join(import.meta.dirname, "../dist");
const TYPES: Record<string, string> = {
  ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2", ".json": "application/json",
};

/** What Django's view sends; Mantine's styles carry the nonce, nothing else is inline. */
export const NONCE = "n0nce";
const POLICY = [
  "default-src 'self'", `script-src 'self' 'nonce-${NONCE}'`, `style-src 'self' 'nonce-${NONCE}'`, "img-src 'self' data:",
  "connect-src 'self'", "object-src 'none'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
].join("; ");

/** Serves dist/ as Django does: hashed files below /static/app/, index.html with the policy everywhere else. */
export async function serveBuild(): Promise<{ server: Server; url: string }> {
  const index = readFileSync(join(DIST, "index.html"), "utf8").replace("<head>", `<head><meta name="csp-nonce" content="${NONCE}">`);
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    if (path.startsWith("/static/app/")) {
      try {
        const file = readFileSync(join(DIST, path.slice("/static/app/".length)));
        response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" }).end(file);
      } catch {
        response.writeHead(404).end();
      }
      return;
    }
    response.writeHead(200, { "content-type": "text/html", "content-security-policy": POLICY }).end(index);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { server, url: `http://127.0.0.1:${address.port}` };
}

export async function launchChromium(options: { width: number; height?: number; scheme?: "light" | "dark" }): Promise<BrowserContext> {
  return chromium.launchPersistentContext(mkdtempSync(join(tmpdir(), "longtail-chromium-")), {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
      "--disable-sync",
    ],
    viewport: { width: options.width, height: options.height ?? 900 },
    colorScheme: options.scheme ?? "light",
    timezoneId: "UTC",
  });
}

/** Answers the API from the same handlers as the unit tests; an unexpected request is an error of the page. */
export async function mockApi(page: Page): Promise<void> {
  await page.clock.setFixedTime(new Date("2026-11-29T12:06:12Z"));
  await page.route("**/api/v1/**", async (route) => {
    const request = route.request();
    const mocked = await getResponse(
      handlers,
      new Request(request.url(), { method: request.method(), headers: request.headers(), body: request.postData() }),
    );
    if (mocked === undefined) {
      await route.fulfill({ status: 501, body: "no handler" });
      return;
    }
    await route.fulfill({ status: mocked.status, headers: Object.fromEntries(mocked.headers), body: await mocked.text() });
  });
  await page.routeWebSocket("**/ws/live", (socket) => {
    socket.onMessage((text) => {
      const message: unknown = JSON.parse(String(text));
      if (typeof message === "object" && message !== null && "subscribe" in message) {
        socket.send(JSON.stringify({ type: "subscribed", topic: message.subscribe }));
      }
    });
  });
}

/** Everything that a page complained about: policy violations, exceptions, failed requests. */
export function listenForComplaints(page: Page): string[] {
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
  });
  return complaints;
}
