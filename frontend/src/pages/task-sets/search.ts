import { choiceParam, optional, textParams } from "../../lib/search";

export const BUCKETS = ["untried", "never", "sometimes", "always"] as const;

export const tasksSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["repository", "sort"]),
  ...optional("bucket", choiceParam(raw, "bucket", BUCKETS)),
  ...optional("is_quarantined", flag(raw.is_quarantined)),
});

function flag(value: unknown): boolean | undefined {
  if (value === true || value === "true") return true;
  return value === false || value === "false" ? false : undefined;
}
