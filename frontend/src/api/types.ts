/** The words of the API, as the pages use them. JSON is snake_case end to end. */

export type RunStatus =
  | "draft" | "queued" | "running" | "paused" | "stopping" | "succeeded" | "failed" | "cancelled";
export type StageKind = "eval" | "sft" | "rl";
export type StageStatus = "pending" | "running" | "succeeded" | "failed" | "cancelled" | "skipped";
export type GroupStatus = "open" | "ready" | "consumed" | "scored" | "dropped";
export type TrajectoryStatus = "open" | "completed" | "failed" | "cancelled";
export type AttemptStatus =
  | "queued" | "starting" | "running" | "grading" | "completed" | "failed" | "cancelled";
export type SandboxStatus =
  | "requested" | "starting" | "ready" | "leased" | "stopping" | "gone" | "failed";
export type EngineStatus =
  | "starting" | "syncing" | "serving" | "paused" | "draining" | "gone" | "lost";
export type WorkerStatus = "live" | "draining" | "lost" | "gone";
export type StepStatus =
  | "collecting" | "training" | "publishing" | "done" | "failed" | "superseded";
export type EventLevel = "info" | "warning" | "error";

export type Page<T> = { results: T[]; next: string | null; previous: null };

export type User = { id: number; username: string; role: "viewer" | "operator" | "admin" };
export type Project = { id: number; name: string };
export type Session = { user: User; project: Project };

export type Baseline = { mean: number; low: number; high: number };
export type StageResult = {
  pass_at_1: number;
  low: number;
  high: number;
  tasks: number;
  attempts: number;
  invalid: number;
  baselines?: Record<string, Baseline>;
};

export type Stage = {
  id: number;
  index: number;
  name: string;
  kind: StageKind;
  status: StageStatus;
  num_done: number;
  num_total: number | null;
  result: StageResult | null;
  failure_message: string;
  started_at: string | null;
  finished_at: string | null;
};

export type RunCounts = {
  in_flight: number;
  max_in_flight: number;
  completed: number;
  failed: number;
  cancelled: number;
  infra_failures: number;
  trained_twice: number;
  produced_per_h: number | null;
  consumed_per_h: number | null;
};

export type Run = {
  id: number;
  name: string;
  project: number;
  status: RunStatus;
  wait_sentence: string;
  stop_reason: string;
  seed: number;
  recipe: string;
  description: string;
  stages: Stage[];
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  resume: number;
  weight_version: number;
  cpu_s: number;
  counts: RunCounts;
};

export type Recipe = { id: number; name: string; source: string; updated_at: string };

export type Finding = { level: "ok" | "warning" | "error"; pointer: string; message: string };
export type Preflight = { is_launchable: boolean; findings: Finding[] };

export type Task = { key: string; repository: string };

export type Trajectory = {
  id: number;
  run: number;
  stage: string;
  group: number;
  task: Task;
  index: number;
  status: TrajectoryStatus;
  num_attempts: number;
  reward: number | null;
  advantage: number | null;
  stop_reason: string;
  num_turns: number;
  prompt_tokens: number;
  output_tokens: number;
  version_min: number | null;
  version_max: number | null;
  failure: FailureBrief | null;
  duration_s: number | null;
  created_at: string;
  finished_at: string | null;
};

export type FailureBrief = { stage: string; kind: string; message: string };

export type Attempt = {
  id: number;
  number: number;
  status: AttemptStatus;
  stop_reason: string;
  cancel_reason: string;
  reward: number | null;
  is_attributed_to_policy: boolean;
  failure: FailureBrief | null;
  num_turns: number;
  prompt_tokens: number;
  output_tokens: number;
  version_min: number | null;
  version_max: number | null;
  /** Seconds: queue, start, setup, llm, exec, verify, teardown. */
  timings: Record<string, number>;
  grade: { details?: Record<string, unknown>; output?: string; duration_s?: number };
  sandbox: string | null;
  engine: number | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
};

export type TrajectoryDetail = Trajectory & { instruction: string; attempts: Attempt[] };

export type Turn = {
  index: number;
  started_at: string;
  llm_s: number;
  exec_s: number;
  action: string;
  command: string;
  observation: string;
  exit_code: number | null;
  finish_reason: string;
  prompt_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  version_min: number | null;
  version_max: number | null;
  is_timed_out: boolean;
  truncated_bytes: number;
};

export type Group = {
  id: number;
  stage: string;
  task: Task;
  index: number;
  status: GroupStatus;
  drop_reason: string;
  num_members: number;
  num_ended: number;
  num_valid: number | null;
  reward_mean: number | null;
  reward_std: number | null;
  oldest_version: number | null;
  step: number | null;
  opened_at: string;
  finished_at: string | null;
};

export type Step = {
  id: number;
  index: number;
  resume: number;
  status: StepStatus;
  num_groups: number;
  num_trajectories: number;
  reward_mean: number | null;
  wait_s: number;
  logprob_s: number;
  update_s: number;
  publish_s: number;
  started_at: string;
  finished_at: string | null;
};

/** One point: [resume, step, value]; a value that JSON cannot hold is text or null. */
export type MetricSeries = { name: string; points: [number, number, number | string | null][] };

export type RunEvent = {
  id: number;
  at: string;
  level: EventLevel;
  kind: string;
  sentence: string;
  data: Record<string, unknown>;
};

export type Sandbox = {
  id: number;
  key: string;
  driver: string;
  level: string;
  status: SandboxStatus;
  run_id: number | null;
  attempt_id: number | null;
  trajectory_id: number | null;
  worker: string;
  created_at: string;
  ready_at: string | null;
  finished_at: string | null;
  timings: Record<string, number>;
};

export type FailureGroup = {
  id: number;
  fingerprint: string;
  stage: string;
  kind: string;
  message: string;
  num_failures: number;
  first_at: string;
  last_at: string;
};

export type Failure = FailureBrief & {
  id: number;
  group: number;
  run_id: number | null;
  trajectory_id: number | null;
  attempt_id: number | null;
  host: string;
  engine: string;
  driver: string;
  evidence: Record<string, unknown>;
  is_by_policy: boolean;
  at: string;
};

export type Engine = {
  id: number;
  run: number;
  index: number;
  status: EngineStatus;
  url: string;
  weight_version: number | null;
  target_version: number | null;
  load: { running?: number; queued?: number; token_usage?: number; gen_throughput?: number };
  failure_message: string;
  started_at: string | null;
  synced_at: string | null;
};

export type Worker = {
  id: number;
  name: string;
  node: string;
  kind: "rollout" | "train" | "engine";
  status: WorkerStatus;
  pid: number;
  num_slots: number;
  num_busy: number;
  started_at: string;
  last_seen_at: string;
};
