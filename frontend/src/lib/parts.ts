/** What the seconds of an attempt go to, in the order of its life; the hue of a part is the same on every page. */
export const PARTS = [
  { keys: ["start", "setup"], label: "start, setup", color: "--role-sandbox" },
  { keys: ["llm"], label: "LLM", color: "--role-llm" },
  { keys: ["exec"], label: "shell", color: "--role-rollout" },
  { keys: ["verify"], label: "tests", color: "--tone-solved" },
  { keys: ["teardown"], label: "teardown", color: "--role-other" },
] as const;

export type Part = { label: string; color: string; seconds: number };

/** The parts that took any time. */
export function partsOf(timings: Record<string, number>): Part[] {
  return PARTS.map(({ keys, label, color }) => ({ label, color, seconds: keys.reduce((sum, key) => sum + (timings[key] ?? 0), 0) }))
    .filter(({ seconds }) => seconds > 0);
}
