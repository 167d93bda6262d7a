import type { TrajectoriesSearch } from "./search";

/** Lists that a reader comes back to, as links. Each is a filter like any other. */
export const PRESETS: { label: string; meaning: string; search: TrajectoriesSearch }[] = [
  { label: "All", meaning: "Every trajectory of the run, newest first.", search: {} },
  {
    label: "Needs attention", meaning: "No reward that may be trusted, the longest first.",
    search: { outcome: "invalid,cancelled", sort: "-duration" },
  },
  { label: "Infra failures", meaning: "The infrastructure failed them: no reward, not a zero.", search: { outcome: "invalid", sort: "failure" } },
  { label: "Long tail", meaning: "The slowest first.", search: { sort: "-duration" } },
  { label: "In flight", meaning: "Running now, the oldest first.", search: { outcome: "running", sort: "id" } },
  { label: "Zero-gradient groups", meaning: "Valid members of groups whose rewards are all equal.", search: { is_zero_gradient: "true", sort: "group" } },
  { label: "At a cap", meaning: "Ended by a cap of turns, tokens or time.", search: { stop_reason: "turn_cap,token_cap,turn_token_cap,time_cap" } },
];
