/**
 * The one place where a state gets its word, hue and icon.
 *
 * Every record is keyed by the union of the API, so a new status does not compile until it has a face.
 */
import type {
  AttemptStatus, EngineStatus, FailureState, GroupStatus, LifeState, RunStatus, SandboxStatus, StageStatus, StepStatus, Trajectory,
  WorkerStatus,
} from "../api/types";

/** A hue of the tokens (`--tone-…`). Hatched for `invalid`: neither solved nor unsolved. */
export type Tone = "solved" | "unsolved" | "invalid" | "running" | "waiting" | "paused" | "cancelled" | "failed";

export type IconName =
  | "check" | "cross" | "hatch" | "half" | "ring" | "pause" | "slash" | "alert" | "dot" | "arrow";

export type Face = { label: string; tone: Tone; icon: IconName; meaning: string };

export const RUN_STATUS: Record<RunStatus, Face> = {
  draft: { label: "Draft", tone: "waiting", icon: "ring", meaning: "Stored, not launched." },
  queued: { label: "Queued", tone: "waiting", icon: "ring", meaning: "Launched; waits for workers and engines." },
  running: { label: "Running", tone: "running", icon: "half", meaning: "A stage is in progress." },
  paused: {
    label: "Paused", tone: "paused", icon: "pause",
    meaning: "No admission and no new step; what is in flight finishes, engines keep serving.",
  },
  stopping: { label: "Stopping", tone: "paused", icon: "half", meaning: "Trajectories and sandboxes are being ended." },
  succeeded: { label: "Succeeded", tone: "solved", icon: "check", meaning: "All stages succeeded." },
  failed: { label: "Failed", tone: "failed", icon: "alert", meaning: "A stage failed; an explicit resume queues it again." },
  cancelled: { label: "Cancelled", tone: "cancelled", icon: "slash", meaning: "Stopped by a person." },
};

export const STAGE_STATUS: Record<StageStatus, Face> = {
  pending: { label: "Pending", tone: "waiting", icon: "ring", meaning: "Waits for the stage before it." },
  running: { label: "Running", tone: "running", icon: "half", meaning: "In progress." },
  succeeded: { label: "Succeeded", tone: "solved", icon: "check", meaning: "Finished." },
  failed: { label: "Failed", tone: "failed", icon: "alert", meaning: "Ended with a failure." },
  cancelled: { label: "Cancelled", tone: "cancelled", icon: "slash", meaning: "The run was stopped." },
  skipped: { label: "Skipped", tone: "cancelled", icon: "slash", meaning: "Not needed." },
};

export const GROUP_STATUS: Record<GroupStatus, Face> = {
  open: { label: "Open", tone: "running", icon: "half", meaning: "Members are still running." },
  ready: { label: "Ready", tone: "waiting", icon: "ring", meaning: "Every member ended; waits for a step." },
  consumed: { label: "Consumed", tone: "solved", icon: "check", meaning: "Trained by one step." },
  scored: { label: "Scored", tone: "solved", icon: "check", meaning: "Counted by an evaluation." },
  dropped: { label: "Dropped", tone: "cancelled", icon: "slash", meaning: "Not trained; the reason says why." },
};

export const ATTEMPT_STATUS: Record<AttemptStatus, Face> = {
  queued: { label: "Queued", tone: "waiting", icon: "ring", meaning: "Waits for a slot." },
  starting: { label: "Starting", tone: "running", icon: "half", meaning: "Its sandbox is starting." },
  running: { label: "Running", tone: "running", icon: "half", meaning: "Turns are being taken." },
  grading: { label: "Grading", tone: "running", icon: "half", meaning: "The hidden tests run." },
  completed: { label: "Completed", tone: "solved", icon: "check", meaning: "The verifier ran to its end." },
  failed: { label: "Infra failure", tone: "invalid", icon: "hatch", meaning: "The infrastructure failed; there is no reward." },
  cancelled: { label: "Cancelled", tone: "cancelled", icon: "slash", meaning: "Ended before it could be graded." },
};

export const SANDBOX_STATUS: Record<SandboxStatus, Face> = {
  requested: { label: "Requested", tone: "waiting", icon: "ring", meaning: "Waits for a start slot." },
  starting: { label: "Starting", tone: "running", icon: "half", meaning: "Being started." },
  ready: { label: "Ready", tone: "running", icon: "dot", meaning: "Started, not leased yet." },
  leased: { label: "Leased", tone: "running", icon: "half", meaning: "An attempt works in it." },
  stopping: { label: "Stopping", tone: "paused", icon: "half", meaning: "Being torn down." },
  gone: { label: "Gone", tone: "cancelled", icon: "check", meaning: "Torn down." },
  failed: { label: "Failed", tone: "failed", icon: "alert", meaning: "Ended by a failure." },
};

export const ENGINE_STATUS: Record<EngineStatus, Face> = {
  starting: { label: "Starting", tone: "running", icon: "half", meaning: "The server is loading." },
  syncing: { label: "Syncing", tone: "running", icon: "arrow", meaning: "Loading the current weight version." },
  serving: { label: "Serving", tone: "solved", icon: "check", meaning: "Confirmed the current weight version; takes traffic." },
  paused: { label: "Paused", tone: "paused", icon: "pause", meaning: "Paused for a weight update." },
  draining: { label: "Draining", tone: "paused", icon: "half", meaning: "Takes no new requests." },
  gone: { label: "Gone", tone: "cancelled", icon: "slash", meaning: "Stopped." },
  lost: { label: "Lost", tone: "failed", icon: "alert", meaning: "No longer answers." },
};

export const WORKER_STATUS: Record<WorkerStatus, Face> = {
  live: { label: "Live", tone: "solved", icon: "check", meaning: "Its heartbeat is fresh." },
  draining: { label: "Draining", tone: "paused", icon: "half", meaning: "Finishes its work, takes no more." },
  lost: { label: "Lost", tone: "failed", icon: "alert", meaning: "Its heartbeat stopped." },
  gone: { label: "Gone", tone: "cancelled", icon: "slash", meaning: "Left in order." },
};

export const STEP_STATUS: Record<StepStatus, Face> = {
  collecting: { label: "Collecting", tone: "waiting", icon: "ring", meaning: "Waits for ready groups." },
  training: { label: "Training", tone: "running", icon: "half", meaning: "The trainer is at work." },
  publishing: { label: "Publishing", tone: "running", icon: "arrow", meaning: "New weights are being written." },
  done: { label: "Done", tone: "solved", icon: "check", meaning: "Its weights are published." },
  failed: { label: "Failed", tone: "failed", icon: "alert", meaning: "Ended with a failure." },
  superseded: { label: "Superseded", tone: "cancelled", icon: "slash", meaning: "Undone by a roll-back; stays visible." },
};

export const FAILURE_STATE: Record<FailureState, Face> = {
  new: { label: "New", tone: "failed", icon: "alert", meaning: "First seen less than 24 hours ago." },
  ongoing: { label: "Ongoing", tone: "running", icon: "half", meaning: "Known for longer than a day, and neither resolved nor ignored." },
  regressed: { label: "Regressed", tone: "failed", icon: "arrow", meaning: "Failed again after it had been resolved." },
  resolved: { label: "Resolved", tone: "solved", icon: "check", meaning: "A person said that its cause is gone; it has not failed since." },
  ignored: { label: "Ignored", tone: "cancelled", icon: "slash", meaning: "A person set it aside for a while." },
};

/** A step in the life of a sandbox. */
export const LIFE_STATE: Record<LifeState, Face> = {
  done: { label: "Done", tone: "solved", icon: "check", meaning: "Over; its seconds are known." },
  running: { label: "Now", tone: "running", icon: "half", meaning: "The box is in it." },
  failed: { label: "Failed", tone: "invalid", icon: "hatch", meaning: "The infrastructure failed here." },
  not_reached: { label: "No figure", tone: "waiting", icon: "ring", meaning: "Not reached, or this driver has no such step." },
};

/** What a trajectory came to. `invalid` is a third state: the infrastructure failed, so there is no reward. */
export type Outcome = "solved" | "unsolved" | "invalid" | "running" | "cancelled";

export const OUTCOME: Record<Outcome, Face> = {
  solved: { label: "Solved", tone: "solved", icon: "check", meaning: "The hidden tests pass." },
  unsolved: { label: "Unsolved", tone: "unsolved", icon: "cross", meaning: "Graded, and the tests do not pass." },
  invalid: {
    label: "Invalid", tone: "invalid", icon: "hatch",
    meaning: "The infrastructure failed, so there is no reward. Not a zero: it is left out of every mean.",
  },
  running: { label: "Running", tone: "running", icon: "half", meaning: "In flight." },
  cancelled: { label: "Cancelled", tone: "cancelled", icon: "slash", meaning: "Ended before it was graded; no reward." },
};

/** A reward exists only on a completed trajectory; whatever else carries a number is not believed. */
export function outcomeOf(trajectory: Pick<Trajectory, "status" | "reward">): Outcome {
  switch (trajectory.status) {
    case "open":
      return "running";
    case "cancelled":
      return "cancelled";
    case "failed":
      return "invalid";
    case "completed":
      if (trajectory.reward === null) return "invalid";
      return trajectory.reward >= 1 ? "solved" : "unsolved";
  }
}
