/** An overview and a step with plausible values, for tests; a test names only what it is about. */
import type { BatchGroup, BatchMember, Overview, StepDetail } from "../../api/types";
import { at, makeStep } from "../../test/factories";

type Fates = Overview["fates"];
const FATES = ["trained", "zero_advantage", "waiting", "open", "stale", "released", "invalid", "superseded", "cancelled"] as const;

/** All fates; those that are not given have nothing. */
export function makeFates(given: Partial<Record<(typeof FATES)[number], number>>): Fates {
  return FATES.map((fate) => ({ fate, trajectories: given[fate] ?? 0, turns: 8 * (given[fate] ?? 0), tokens: 100 * (given[fate] ?? 0) }));
}

export function makeSplit(population: Overview["time"][number]["population"], numAttempts = 1200): Overview["time"][number] {
  return {
    population, num_attempts: numAttempts, mean_s: 100, queue_s: 4,
    parts: [
      { part: "llm", mean_s: 77, share: 0.77 }, { part: "exec", mean_s: 9, share: 0.09 }, { part: "verify", mean_s: 8, share: 0.08 },
      { part: "start", mean_s: 2, share: 0.02 }, { part: "setup", mean_s: 3, share: 0.03 }, { part: "teardown", mean_s: 1, share: 0.01 },
      { part: "other", mean_s: 0, share: 0 },
    ],
  };
}

export function makeOverview(fields: Partial<Overview> = {}): Overview {
  return {
    at: at(400),
    verdict: { bound: "rollout", wait_share: 0.6, num_steps: 10, sentence: "Rollout-bound: the trainer waited 6.0 of 10.0 s a step (60%) over the last 10 steps." },
    balance: { produced_per_h: 1100, consumed_per_h: 930, window_s: 600 },
    buffer: { num_ready: 3, num_open: 12, capacity: 24, oldest_s: 11, oldest_lag: 1 },
    topology: {
      queued: 12, in_flight: 88, max_in_flight: 96, sandboxes: [{ name: "leased", num: 88 }],
      engines: { num: 2, num_serving: 2, num_lost: 0, running: 60, queued: 3, kv_max: 0.41, gen_tokens_per_s: 1840, lag: 0 },
      dropped: [{ name: "stale", num: 2 }], trainer: { phase: "collecting", step: 22, since: at(390), weight_version: 22 },
    },
    loop: {
      trajectories: 2400, solved: 300, unsolved: 2000, invalid: 30, cancelled: 10, running: 60, mean_turns: 8, start_s: 2, llm_s_per_turn: 5, exec_s_per_turn: 1,
      verify_s: 8,
    },
    time: [makeSplit("finished_ok"), makeSplit("finished", 1260), makeSplit("with_in_flight", 1348)],
    funnel: [
      { stage: "start", entered: 100, ok: 97, failed: 3, retried: 2, p50_s: 1.9, p99_s: 3.7, top_failure: { id: 5, message: "no answer within 20 s \u202e", num: 3 } },
      { stage: "verify", entered: 97, ok: 97, failed: 0, retried: 0, p50_s: 8.5, p99_s: 30, top_failure: null },
    ],
    drivers: [{ driver: "e2b", num_sandboxes: 100, max_concurrent: 96, stages: [{ stage: "start", num: 97, q25_s: 1.7, median_s: 1.9, q75_s: 2.2 }] }],
    calls: { calls: 300_500, errors: 270, error_rate: 270 / 300_500 },
    fates: makeFates({ trained: 600, zero_advantage: 600, waiting: 24, stale: 16, invalid: 30 }),
    selection: [
      { population: "finished", num: 1270, num_valid: 1240, sum_turns: 10_160, sum_reward: 260, mean_turns: 8, mean_reward: 0.21 },
      { population: "consumed", num: 1200, num_valid: 1200, sum_turns: 9600, sum_reward: 250, mean_turns: 8, mean_reward: 0.208 },
      { population: "discarded", num: 46, num_valid: 16, sum_turns: 368, sum_reward: 4, mean_turns: 8, mean_reward: 0.25 },
      { population: "waiting", num: 24, num_valid: 24, sum_turns: 192, sum_reward: 6, mean_turns: 8, mean_reward: 0.25 },
    ],
    cost: { cpu_s: 3600, sandbox_h: 33, engine_h: 8, engine_busy_h: 7.2, trained: 1200, points: 20.3 },
    lives: [
      { resume: 0, first_step: 1, last_step: 16, num_done: 14, num_superseded: 2, num_failed: 0, started_at: at(120), ended_at: at(260), sentence: "" },
      { resume: 1, first_step: 15, last_step: 22, num_done: 7, num_superseded: 0, num_failed: 0, started_at: at(270), ended_at: at(380), sentence: "Trainer life 1 goes on." },
    ],
    origin: null,
    ...fields,
  };
}

export function makeMember(fields: Partial<BatchMember> = {}): BatchMember {
  return {
    id: 4012, index: 0, status: "completed", reward: 1, advantage: 0.73, stop_reason: "submitted", num_turns: 8, output_tokens: 900, version_min: 1, version_max: 1,
    attempts: [{ number: 1, status: "completed", created_at: at(300), started_at: at(301), finished_at: at(311), timings: { start: 1, setup: 1, llm: 6, exec: 1, verify: 1 } }],
    ...fields,
  };
}

export function makeBatchGroup(fields: Partial<BatchGroup> = {}): BatchGroup {
  return {
    id: 311, task: { id: 17, key: "calc-0017", repository: "calc" }, index: 7, status: "consumed", num_valid: 1, reward_mean: 1, reward_std: 0.5, oldest_version: 1,
    opened_at: at(300), ready_at: at(311), finished_at: at(312), members: [makeMember()], ...fields,
  };
}

export function makeStepDetail(fields: Partial<StepDetail> = {}): StepDetail {
  return { ...makeStep({ index: 21 }), values: [{ name: "train/loss", value: "NaN" }], groups: [makeBatchGroup()], ...fields };
}
