/** What the server pushes. The shapes come from runs/events.py through the schema; so do the topics' names. */
import type { ServerMessage } from "../api/types";

export type LiveEvent = Exclude<ServerMessage, { type: "beacon" | "subscribed" | "refused" }>;

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
  subscribed: true,
  refused: true,
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
