/** Every message that the server can push; the server's side is runs/events.py, and so are the names. */

export type MetricPoint = {
  name: string;
  resume: number;
  step: number;
  /** "NaN", "Infinity" and "-Infinity" are text: JSON has no such numbers. */
  value: number | string | null;
  at: string;
};

export type LiveEvent =
  | { type: "run_changed"; run: number; status: string }
  | { type: "stage_changed"; run: number; stage: number; status: string }
  | { type: "step_changed"; run: number; step: number; status: string }
  | { type: "trajectory_changed"; run: number; trajectory: number; status: string }
  | { type: "event_added"; run: number; at: string; level: string; sentence: string }
  | { type: "metrics_added"; run: number; points: MetricPoint[] }
  | { type: "turns_added"; trajectory: number; attempt: number; first_index: number; last_index: number }
  | { type: "fleet_changed"; what: "workers" | "engines" | "sandboxes" | "failures" };

/** What the database holds for a topic, every few seconds: a client whose last beacon differs may have missed something. */
export type Beacon = { type: "beacon"; topic: string; cursors: Record<string, number> };

export type ServerMessage = LiveEvent | Beacon;

const TYPES: Record<ServerMessage["type"], true> = {
  run_changed: true,
  stage_changed: true,
  step_changed: true,
  trajectory_changed: true,
  event_added: true,
  metrics_added: true,
  turns_added: true,
  fleet_changed: true,
  beacon: true,
};

/** A message of a newer server that this page does not know is null, never an exception. */
export function parseMessage(text: string): ServerMessage | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || !("type" in value)) return null;
  const { type } = value;
  // The shape of a known type is the server's promise (pydantic, extra=forbid).
  return typeof type === "string" && Object.hasOwn(TYPES, type) ? (value as ServerMessage) : null;
}

export const topics = {
  runs: (project: number) => `p${project}.runs`,
  run: (project: number, run: number) => `p${project}.run.${run}`,
  trajectory: (project: number, trajectory: number) => `p${project}.trajectory.${trajectory}`,
  fleet: (project: number) => `p${project}.fleet`,
};
