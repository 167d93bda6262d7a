/** Lines of a log: hits, ranges, and the text of a copy. */
import type { LogLine } from "../api/inspector";

/** The next hit below a line, from the top again after the last. */
export function hitAfter(hits: readonly number[], line: number): number | undefined {
  return hits.find((hit) => hit > line) ?? hits[0];
}

export function lineOf(from: number, to: number | undefined): string {
  return to === undefined || to === from ? `line ${from}` : `lines ${from} to ${to}`;
}

/** Text before a hit, the hit, text after it, …: every second part is a hit. Case does not matter. */
export function splitByHit(text: string, q: string): string[] {
  if (q === "") return [text];
  const [inText, inQ] = [text.toLowerCase(), q.toLowerCase()];
  if (inText.length !== text.length) return [text]; // a few capitals have longer small forms
  const parts: string[] = [];
  let at = 0;
  for (let hit = inText.indexOf(inQ); hit !== -1; hit = inText.indexOf(inQ, at)) {
    parts.push(text.slice(at, hit), text.slice(hit, hit + q.length));
    at = hit + q.length;
  }
  return [...parts, text.slice(at)];
}

/** As it was printed, commands after a $; a line that was cut says so. */
export function logText(lines: readonly LogLine[]): string {
  return lines
    .map(({ part, text, length }) => `${part === "command" ? "$ " : ""}${text}${length > text.length ? ` [cut: ${text.length} of ${length} characters]` : ""}\n`)
    .join("");
}
