/** What a failure brought as evidence: texts become numbered lines, the rest facts. */

export type Line = { number: number; source: string; text: string };
export type Evidence = { lines: Line[]; facts: { name: string; value: string }[]; firstError: number | null };

const ERROR = /\b(error|failed|failure|fatal|panic|traceback|exception|killed|denied|refused|cannot|no space left|not found|timed? ?out|exceeded|unhealthy|not healthy|reset by|oom)\b/i;

export function readEvidence(evidence: Record<string, unknown>): Evidence {
  const lines: Line[] = [];
  const facts: Evidence["facts"] = [];
  for (const [name, value] of Object.entries(evidence)) {
    if (typeof value !== "string" || !(value.includes("\n") || value.length > 60)) {
      facts.push({ name, value: typeof value === "string" ? value : JSON.stringify(value) });
      continue;
    }
    for (const text of value.replace(/\n$/, "").split("\n")) lines.push({ number: lines.length + 1, source: name, text });
  }
  return { lines, facts, firstError: lines.find((line) => ERROR.test(line.text))?.number ?? null };
}
