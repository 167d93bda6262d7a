/** Typed bodies of the API with plausible values; a test names only what it is about. */
import type { Skeleton } from "../api/inspector";
import type {
  Attempt, Engine, EvalArm, Evaluation, Failure, FailureGroup, Group, Limit, Me, MetricName, MetricSeries, Recipe, Run, RunDetail, RunEvent, Sandbox, Series, Stage, Step,
  Trajectory, TrajectoryDetail, TrajectoryFacets, Turn, Worker,
} from "../api/types";
import type { OutlineTurn } from "../lib/outline";

export const T0 = Date.parse("2026-11-29T12:00:00Z");
export const at = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();

export function page<T>(results: T[], next: string | null = null) {
  return { results, next, previous: null };
}

export function makeMe(fields: Partial<Me> = {}): Me {
  return {
    user: { id: 1, username: "ada", is_superuser: true },
    projects: [{ id: 1, slug: "default", name: "Default", role: "admin", created_at: at(-1000) }],
    csrf: "token",
    ...fields,
  };
}

export function makeStage(fields: Partial<Stage> = {}): Stage {
  return {
    id: 1, index: 0, name: "base", kind: "eval", status: "pending", num_done: 0, num_total: 240, weight_version: null,
    result: null, baselines: {}, failure_message: "", started_at: null, finished_at: null, ...fields,
  };
}

export function makeRunDetail(fields: Partial<RunDetail> = {}): RunDetail {
  return {
    id: 7, project: "default", name: "miniature-seed-1", is_demo: false, status: "running",
    wait_sentence: "Training step 22: 3 of 8 groups are ready, the oldest open one has waited 11 s.", stop_reason: "",
    recipe: "miniature", description: "This proves the machinery, not the model.", seed: 1, created_by: "ada", resume: 0,
    weight_version: 22, cpu_s: 431, created_at: at(0), started_at: at(2), finished_at: null, stages: [makeStage()],
    counts: {
      in_flight: 88, max_in_flight: 96, queued: 12, completed: 2304, failed: 3, cancelled: 21, infra_failures: 9, trained_twice: 0, steps_done: 21,
      produced_per_h: 13_800, consumed_per_h: 12_940,
    },
    cloned_from: null, from_checkpoint: null, checkpoint_asked_at: null, commands: makeCommands("pause", "stop", "checkpoint"),
    ...fields,
  };
}

/** All commands of a run; those named are possible. */
export function makeCommands(...allowed: RunDetail["commands"][number]["command"][]): RunDetail["commands"] {
  const all = ["pause", "unpause", "checkpoint", "resume", "stop"] as const;
  return all.map((command) => {
    const isAllowed = allowed.includes(command);
    return { command, is_allowed: isAllowed, why_not: isAllowed ? "" : `The run's state does not allow ${command}.` };
  });
}

export function makeRun(fields: Partial<Run> = {}): Run {
  const { counts, stages, ...detail } = makeRunDetail();
  return {
    ...detail,
    weight_version: counts.steps_done + 1, reward_mean_10: [0.12, 0.14, 0.13, 0.16, 0.2, 0.24], produced_per_h: counts.produced_per_h,
    infra_failures: counts.infra_failures, attempts_ended: counts.completed + counts.infra_failures, in_flight: counts.in_flight,
    max_in_flight: counts.max_in_flight, staleness: 1.7, errors_24h: 2, engines_up: 1, last_heartbeat_at: at(371),
    stages: stages.map(({ id, index, name, kind, status, num_done, num_total }) => ({
      id, index, name, kind, status, num_done, num_total, pass_at_1: null,
    })),
    ...fields,
  };
}

export function makeTrajectory(fields: Partial<Trajectory> = {}): Trajectory {
  return {
    id: 4012, run: 7, stage: "rl-training", group: 311, task: { id: 17, key: "calc-0017", repository: "calc" }, index: 2, status: "completed",
    attempt_status: "completed", num_attempts: 1, reward: 1, advantage: 0.73, stop_reason: "submitted", num_turns: 4, prompt_tokens: 512,
    output_tokens: 41, version_min: 20, version_max: 21, failure: null, duration_s: 3.42, created_at: at(300), finished_at: at(303.4),
    outcome: "solved", step: 121, step_index: 21, staleness: 1, failure_group: null, fingerprint: null, driver: "local", engine: 0,
    timings: { start: 0.048, setup: 0.03, llm: 2.31, exec: 0.42, verify: 0.38, teardown: 0.02 }, queue_s: 0.2, llm_share: 0.675,
    started_at: at(300.2), ...fields,
  };
}

export function makeTrajectoryFacets(fields: Partial<TrajectoryFacets["facets"]> = {}, count = 240): TrajectoryFacets {
  return {
    totals: { count, valid: 230, solved: 120, reward_mean: 0.522, turns: 1100, prompt_tokens: 120_000, output_tokens: 9800, hours: 0.24 },
    facets: {
      outcome: [{ value: "solved", count: 120 }, { value: "unsolved", count: 110 }, { value: "invalid", count: 10 }],
      stop_reason: [{ value: "submitted", count: 200 }, { value: "turn_cap", count: 30 }], stage: [{ value: "rl-training", count: 240 }],
      repository: [{ value: "calc", count: 60 }], driver: [{ value: "local", count: 240 }], failure: [{ value: "infer_infra", count: 10 }], ...fields,
    },
  };
}

export function makeAttempt(fields: Partial<Attempt> = {}): Attempt {
  return {
    id: 9001, number: 1, status: "completed", stop_reason: "submitted", cancel_reason: "", reward: 1, is_attributed_to_policy: false,
    failure: null, num_turns: 4, prompt_tokens: 512, output_tokens: 41, version_min: 20, version_max: 21,
    timings: { queue: 0.21, start: 0.048, setup: 0.03, llm: 2.31, exec: 0.42, verify: 0.38, teardown: 0.02 },
    grade: { details: { reward: 1, passed: 3, failed: 0 }, output: "test_add ... ok\ntest_sub ... ok\ntest_neg ... ok\n\nOK\n", duration_s: 0.38 },
    num_llm_errors: 0, worker: "rollout-1@box", engine: 0, created_at: at(300), started_at: at(300.2), finished_at: at(303.4), ...fields,
  };
}

export function makeTrajectoryDetail(fields: Partial<TrajectoryDetail> = {}): TrajectoryDetail {
  return {
    ...makeTrajectory(),
    instruction: "The function `mean` in stats.py returns a wrong value for an odd number of items.\nFind the bug, mend it and submit.",
    difficulty: "one-token", attempts: [makeAttempt()], ...fields,
  };
}

export function makeTurn(fields: Partial<Turn> = {}): Turn {
  const { action = "cat stats.py", command = "cat stats.py", observation = "def mean(xs):\n    return sum(xs) / (len(xs) - 1)\n" } = fields;
  return {
    index: 0, started_at: at(300.3), llm_s: 0.61, queue_s: null, exec_s: 0.05, action, command, observation, exit_code: 0, finish_reason: "stop", prompt_tokens: 84,
    output_tokens: 5, cached_tokens: 80, version_min: 20, version_max: 20, is_timed_out: false, truncated_bytes: 0, action_length: action.length,
    command_length: command.length, observation_length: observation.length, log_length: 0, ...fields,
  };
}

/** The outline of turns that each take a second, with what a test says of them. */
export function makeSkeleton(turns: Partial<Omit<OutlineTurn, "index">>[], fields: Partial<Skeleton> = {}): Skeleton {
  const rows = turns.map((turn, index) => ({
    offset_s: index, llm_s: 0.6, queue_s: null, exec_s: 0.05, prompt_tokens: 84 + 40 * index, output_tokens: 5, exit_code: 0, preview: "cat stats.py", ...turn, index,
  }));
  return {
    attempt: 1, started_at: at(300.2), turn_cap: 80, token_cap: 448,
    turns: {
      index: rows.map((row) => row.index), offset_s: rows.map((row) => row.offset_s), llm_s: rows.map((row) => row.llm_s),
      queue_s: rows.map((row) => row.queue_s), exec_s: rows.map((row) => row.exec_s), prompt_tokens: rows.map((row) => row.prompt_tokens),
      output_tokens: rows.map((row) => row.output_tokens), exit_code: rows.map((row) => row.exit_code), preview: rows.map((row) => row.preview),
    },
    errors: rows.filter((row) => row.exit_code !== 0).map((row) => row.index), timeouts: [], cut: [], no_action: [], repeated: [], repeats: [],
    first_edit: null, first_test: null, submit: null, ...fields,
  };
}

/** The outline that belongs to turns. */
export function skeletonOf(turns: readonly Turn[], fields: Partial<Skeleton> = {}): Skeleton {
  return makeSkeleton(
    turns.map(({ llm_s, queue_s, exec_s, prompt_tokens, output_tokens, exit_code, command, action }) => ({
      llm_s, queue_s, exec_s, prompt_tokens, output_tokens, exit_code, preview: command || action,
    })),
    fields,
  );
}

export function makePatch(patch = "") {
  return { attempt: 1, status: "completed" as const, patch, is_cut: false };
}

export function makeGroup(fields: Partial<Group> = {}): Group {
  return {
    id: 311, run: 7, stage: "rl-training", task: { id: 17, key: "calc-0017", repository: "calc" }, index: 167, status: "consumed",
    drop_reason: "", resume: 0, opened_version: 20, oldest_version: 20, num_members: 8, num_ended: 8, num_valid: 8, reward_mean: 0.375,
    reward_std: 0.518, zero_gradient: "", step: 121, step_index: 21, opened_at: at(290), ready_at: at(309), finished_at: at(311), ...fields,
  };
}

export function makeStep(fields: Partial<Step> = {}): Step {
  return {
    id: 21, stage: "rl-training", index: 0, resume: 0, status: "done", trained_version: 1, published_version: 2, num_groups: 8,
    num_trajectories: 64, reward_mean: 0.2, wait_s: 6.1, logprob_s: 0.8, update_s: 4.4, publish_s: 0.21, metrics: {}, started_at: at(120),
    finished_at: at(131), ...fields,
  };
}

export function makeSeries(name: string, values: (number | "NaN" | "Infinity")[], resume = 0): MetricSeries {
  return { name, unit: "", points: values.map((value, step) => ({ resume, step, value, at: at(120 + step * 11) })) };
}

/** A curve as a chart draws it: a point a step, from step 1. */
export function makeCurve(name: string, values: (number | null)[], fields: Partial<Series> = {}): Series {
  const none = { x: [], last: [], mean: [], low: [], high: [], count: [], non_finite: [] };
  return {
    name, label: name, unit: "", is_raw: true, num_points: values.length, num_unplaced: 0, smooth: values, ghosts: none, resumes: [], central: null,
    buckets: { ...none, x: values.map((_, i) => i + 1), last: values, mean: values, low: values, high: values, count: values.map(() => 1) },
    ...fields,
  };
}

export function makeMetricName(name: string, fields: Partial<MetricName> = {}): MetricName {
  return {
    name, label: name, group: "Training", unit: "nats", definition: `What ${name} means.`, population: "trained", thresholds: [], num_points: 22,
    last: 0.25, last_step: 22, ...fields,
  };
}

export function makeEvent(fields: Partial<RunEvent> = {}): RunEvent {
  return { id: 1, at: at(5), level: "info", kind: "run.started", sentence: "The run started.", data: {}, ...fields };
}

export function makeRecipe(fields: Partial<Recipe> = {}): Recipe {
  return { id: 1, project: "default", name: "miniature", source: "version: 1\nname: miniature\nseed: 1\n", updated_at: at(-500), ...fields };
}

export function makeSandbox(fields: Partial<Sandbox> = {}): Sandbox {
  return {
    id: 1, project: "default", key: "sb-7-9001", driver: "local", level: "bwrap+overlay", status: "gone", run_id: 7, attempt_id: 9001,
    trajectory_id: 4012, is_orphan: false, worker: "rollout-1@box", created_at: at(300), ready_at: at(300.05), finished_at: at(303.4),
    timings: { admit: 0.001, start: 0.048, setup: 0.03, exec: 0.42, verify: 0.38, teardown: 0.02 }, ...fields,
  };
}

export function makeFailureGroup(fields: Partial<FailureGroup> = {}): FailureGroup {
  return {
    id: 1, project: "default", fingerprint: "v1:infer:infer_infra:connection to URL refused", stage: "infer", kind: "infer_infra",
    message: "connection to http://127.0.0.1:31001 refused", num_failures: 6, first_at: at(205), last_at: at(207), state: "new",
    state_reason: "", state_by: "", resolved_at: null, regressed_at: null, ignored_until: null, num_here: 6, num_trajectories: 6, num_runs: 1,
    num_invalidated: 1, hourly: Array.from({ length: 48 }, (_, hour) => (hour === 47 ? 6 : 0)), ...fields,
  };
}

export function makeFailure(fields: Partial<Failure> = {}): Failure {
  return {
    id: 1, group: 1, stage: "infer", kind: "infer_infra", message: "connection to http://127.0.0.1:31001 refused", run_id: 7,
    attempt_id: 8801, trajectory_id: 3977, host: "box", engine: "0", driver: "local", evidence: {}, is_by_policy: false, at: at(206), ...fields,
  };
}

export function makeEngine(fields: Partial<Engine> = {}): Engine {
  return {
    id: 1, run: 7, run_name: "miniature-seed-1", version_skew: 0, num_restarts: 0, heartbeat_at: at(371), worker: "engine-1@box", index: 0, status: "serving", url: "http://127.0.0.1:31001", weight_version: 22, target_version: 22, num_in_flight: 61,
    load: { running: 58, queued: 3, token_usage: 0.412, gen_throughput: 1840 }, failure_message: "", created_at: at(2), started_at: at(3),
    synced_at: at(361), finished_at: null, ...fields,
  };
}

export function makeWorker(fields: Partial<Worker> = {}): Worker {
  return {
    id: 1, name: "rollout-1@box", node: "box", kind: "rollout", status: "live", pid: 4711, num_slots: 48, num_busy: 44, capabilities: {},
    drain_reason: "", drained_by: "",
    started_at: at(-30), last_seen_at: at(371), ...fields,
  };
}

export function makeEvaluation(fields: Partial<Evaluation> = {}): Evaluation {
  return {
    id: 1, stage: "base", status: "succeeded", weight_version: 0, pass_at_1: { mean: 0.02, low: 0.004, high: 0.05 }, valid_only: 0.021,
    if_invalid_solved: 0.024, paired: null,
    num_tasks: 60, num_scheduled: 240, num_valid: 239, num_invalid: 1, is_final: true, baselines: {}, tasks: [], ...fields,
  };
}

export function makeLimit(fields: Partial<Limit> = {}): Limit {
  return {
    id: 1, project: "default", layer: "rollout", name: "max_in_flight", scope: "run 7", unit: "attempts", configured: 96, measured: 88, peak: 96,
    measured_at: at(370), num_waiting: 12, waiting: "attempts queued", ...fields,
  };
}

export function makeEvalArm(fields: Partial<EvalArm> = {}): EvalArm {
  return {
    id: 1, run: 7, run_name: "miniature-seed-1", stage: "base", status: "succeeded", weight_version: 0, is_demo: false,
    pass_at_1: { mean: 0.25, low: 0.1, high: 0.4 }, ...fields,
  };
}
