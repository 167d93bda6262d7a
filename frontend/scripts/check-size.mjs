/**
 * Fails when what a browser downloads outgrows its budget (gzip, KiB). `--all` lists every part.
 * An entry or a route is all that it needs before its first render; uPlot, which many routes share, has a budget of its own.
 */
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET = { entry: 230, css: 45, route: 60, uplot: 25, total: 700 };
const dist = new URL("../dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));
const kib = (file) => gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length / 1024;

/** All chunks that a page needs before its first render. */
function staticImports(key, seen = new Set()) {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const next of manifest[key].imports ?? []) staticImports(next, seen);
  return seen;
}

const chunks = Object.entries(manifest);
const entryKey = chunks.find(([, chunk]) => chunk.isEntry)[0];
const entryChunks = staticImports(entryKey);
const sum = (keys) => [...keys].reduce((total, key) => total + kib(manifest[key].file), 0);
const css = new Set([...entryChunks].flatMap((key) => manifest[key].css ?? []));
const scripts = new Set(chunks.map(([, chunk]) => chunk.file).filter((file) => file.endsWith(".js")));
const uplot = chunks.find(([, chunk]) => chunk.name === "uplot")?.[0];

const rows = [
  ["entry", sum(entryChunks), BUDGET.entry],
  ["css", [...css].reduce((total, file) => total + kib(file), 0), BUDGET.css],
  ["all scripts", [...scripts].reduce((total, file) => total + kib(file), 0), BUDGET.total],
  ["uplot", uplot === undefined ? Infinity : kib(manifest[uplot].file), BUDGET.uplot],
];
const routes = chunks
  .filter(([, chunk]) => chunk.isDynamicEntry)
  .map(([key, chunk]) => [chunk.name ?? key, sum([...staticImports(key)].filter((part) => !entryChunks.has(part) && part !== uplot)), BUDGET.route]);
rows.push(...routes);

const over = rows.filter(([, size, budget]) => size > budget);
const shown = process.argv.includes("--all") ? rows : over;
for (const [name, size, budget] of shown) console.log(`${name.padEnd(24)} ${size.toFixed(1).padStart(7)} / ${budget} KiB gz`);
const [entry, styles, total] = rows.map(([, size]) => size.toFixed(0));
const largest = routes.reduce((a, b) => (b[1] > a[1] ? b : a));
console.log(
  `front end: entry ${entry} KiB gz, css ${styles}, largest page ${largest[0]} ${largest[1].toFixed(0)}, all ${total}${over.length ? ": OVER BUDGET" : ""}`,
);
process.exit(over.length ? 1 : 0);
