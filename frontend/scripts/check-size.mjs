/** Fails when what a browser downloads outgrows its budget (gzip, KiB; design: entry 230, route 60, CSS 45). */
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET = { entry: 230, chunk: 60, css: 45 };
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

const entryKey = Object.keys(manifest).find((key) => manifest[key].isEntry);
const entryChunks = staticImports(entryKey);
const sum = (keys) => [...keys].reduce((total, key) => total + kib(manifest[key].file), 0);
const css = new Set([...entryChunks].flatMap((key) => manifest[key].css ?? []));

const rows = [
  ["entry", sum(entryChunks), BUDGET.entry],
  ["css", [...css].reduce((total, file) => total + kib(file), 0), BUDGET.css],
];
for (const [key, chunk] of Object.entries(manifest)) {
  if (!chunk.isDynamicEntry) continue;
  const own = [...staticImports(key)].filter((part) => !entryChunks.has(part));
  rows.push([chunk.name ?? key, sum(own), BUDGET.chunk]);
}

const over = rows.filter(([, size, budget]) => size > budget);
const shown = process.argv.includes("--all") ? rows : over;
for (const [name, size, budget] of shown) console.log(`${name.padEnd(24)} ${size.toFixed(1).padStart(7)} / ${budget} KiB gz`);
const [entry, , ...routes] = rows;
const largest = routes.reduce((a, b) => (b[1] > a[1] ? b : a));
console.log(`front end: entry ${entry[1].toFixed(0)} KiB gz, largest page ${largest[0]} ${largest[1].toFixed(0)}${over.length ? ": OVER BUDGET" : ""}`);
process.exit(over.length ? 1 : 0);
