/** A whole API for page tests and screenshots: one run that learns, with a resume, failures and long texts. */
import { http, HttpResponse } from "msw";

import type { Turn } from "../api/types";
import {
  at, makeAttempt, makeEngine, makeEvaluation, makeEvent, makeFailure, makeFailureGroup, makeGroup, makeMe, makeRecipe, makeRun,
  makeRunDetail, makeSandbox, makeSeries, makeStage, makeStep, makeTrajectory, makeTrajectoryDetail, makeTrajectoryFacets, makeTurn, makeWorker, page,
} from "./factories";

/** A small linear congruential generator: the same figures in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

const baselines = { uniform_tries: { mean: 0.31, low: 0.27, high: 0.35 }, repetition: { mean: 0.12, low: 0.09, high: 0.16 } };
const stages = [
  makeStage({
    id: 1, index: 0, name: "base", status: "succeeded", num_done: 240, weight_version: 0, baselines, started_at: at(5), finished_at: at(31),
    result: { pass_at_1: 0.008, low: 0.001, high: 0.03, tasks: 60, attempts: 240, invalid: 0, valid_only: 0.008, if_invalid_solved: 0.008, paired: null },
  }),
  makeStage({ id: 2, index: 1, name: "sft-training", kind: "sft", status: "succeeded", num_done: 180, num_total: 180, started_at: at(31), finished_at: at(88) }),
  makeStage({
    id: 3, index: 2, name: "sft", status: "succeeded", num_done: 240, weight_version: 1, baselines, started_at: at(88), finished_at: at(118),
    result: { pass_at_1: 0.171, low: 0.116, high: 0.234, tasks: 60, attempts: 238, invalid: 2, valid_only: 0.173, if_invalid_solved: 0.179, paired: { against: "base", mean: 0.163, low: 0.104, high: 0.226 } },
  }),
  makeStage({ id: 4, index: 3, name: "rl-training", kind: "rl", status: "running", num_done: 21, num_total: 30, started_at: at(118) }),
  makeStage({ id: 5, index: 4, name: "rl", baselines }),
];
export const run = makeRunDetail({ stages, resume: 1 });

const STEPS = 22;
function curve(name: string, value: (step: number, noise: number) => number, seed: number) {
  const random = numbers(seed);
  const first = makeSeries(name, Array.from({ length: 17 }, (_, step) => value(step, random() - 0.5)));
  const second = makeSeries(name, Array.from({ length: STEPS - 14 }, (_, i) => value(i + 14, random() - 0.5)), 1);
  return { ...first, points: [...first.points, ...second.points.map((point) => ({ ...point, step: point.step + 14 }))] };
}

const series = [
  curve("reward/mean", (step, noise) => Math.max(0, 0.15 + 0.021 * step + noise * 0.2), 1),
  curve("rollout/trajectories_per_h", (_, noise) => 13_800 + noise * 2_000, 2),
  curve("rollout/staleness_mean", (step, noise) => Math.min(1.6, step * 0.4) + noise * 0.4, 3),
  curve("rollout/staleness_max", (step, noise) => Math.round(Math.min(4, step) + noise), 4),
  curve("train/grad_norm", (step, noise) => (step === 9 ? Infinity : 0.4 + noise * 0.3), 5),
  curve("train/logprob_gap", (step, noise) => 0.004 + step * 0.0004 + noise * 0.004, 6),
  curve("train/ess", (step, noise) => 0.97 - step * 0.004 + noise * 0.02, 7),
  curve("train/entropy", (step, noise) => (step === 12 ? NaN : 0.8 - step * 0.018 + noise * 0.05), 8),
  curve("train/ess/lag_0", (_, noise) => 0.99 + noise * 0.01, 12),
  curve("train/logprob_gap/lag_0", (_, noise) => 0.003 + noise * 0.001, 13),
  curve("rollout/tail_share", (_, noise) => 0.3 + noise * 0.2, 14),
  curve("rollout/turns_mean", (step, noise) => 7 - step * 0.1 + noise, 15),
  makeSeries("sft/loss", Array.from({ length: 180 }, (_, step) => 0.3 + 4 * Math.exp(-step / 30))),
  curve("train/zero_gradient", (step) => (step === 3 || step === 11 ? 1 : 0), 9),
].map((one) => ({
  ...one,
  points: one.points.map((point) => ({
    ...point,
    value: typeof point.value === "number" && !Number.isFinite(point.value) ? (Number.isNaN(point.value) ? ("NaN" as const) : ("Infinity" as const)) : point.value,
  })),
}));

const random = numbers(11);
const steps = [0, 1].flatMap((resume) =>
  Array.from({ length: resume === 0 ? 17 : STEPS - 14 }, (_, i) => {
    const index = resume === 0 ? i : i + 14;
    return makeStep({
      id: 100 * resume + i, index, resume, status: resume === 0 && index >= 14 ? "superseded" : "done", trained_version: index + 1 + resume * 3,
      started_at: at(120 + 11 * (index + 7 * resume)), finished_at: at(131 + 11 * (index + 7 * resume)),
      wait_s: 1 + random() * 6, logprob_s: 0.5 + random() * 0.4, update_s: 3.4 + random() * 1.5, publish_s: 0.15 + random() * 0.2,
    });
  }),
);

const STOPS = ["submitted", "submitted", "submitted", "turn_cap", "token_cap", "no_action"] as const;
export const trajectories = Array.from({ length: 240 }, (_, i) => {
  const id = 4300 - i;
  const pick = random();
  const task = { id: i % 40, key: `${["calc", "rows", "text", "trees"][i % 4] ?? ""}-${String(i % 40).padStart(4, "0")}`, repository: ["calc", "rows", "text", "trees"][i % 4] ?? "" };
  const base = { id, group: 311 - Math.floor(i / 8), index: 7 - (i % 8), task, created_at: at(371 - i * 0.3), duration_s: 1.2 + random() * 6 };
  if (i < 6) return makeTrajectory({ ...base, status: "open", attempt_status: "running", reward: null, advantage: null, stop_reason: "", finished_at: null, duration_s: null, num_turns: i });
  if (pick < 0.04) {
    return makeTrajectory({
      ...base, status: "failed", attempt_status: "failed", reward: null, advantage: null, stop_reason: "", num_attempts: 3,
      failure: { stage: "infer", kind: "infer_infra", message: "connection to http://127.0.0.1:31001 refused" },
    });
  }
  if (pick < 0.07) return makeTrajectory({ ...base, status: "cancelled", attempt_status: "cancelled", reward: null, advantage: null, stop_reason: "" });
  const isSolved = random() < 0.55;
  return makeTrajectory({
    ...base, reward: isSolved ? 1 : 0, stop_reason: isSolved ? "submitted" : (STOPS[i % STOPS.length] ?? "submitted"),
    num_turns: 2 + Math.floor(random() * 8), output_tokens: 20 + Math.floor(random() * 200), version_min: 20, version_max: random() < 0.2 ? 22 : 20,
  });
});

export const turns: Turn[] = [
  makeTurn(),
  makeTurn({
    index: 1, started_at: at(301), llm_s: 0.9, exec_s: 0.18, action: "python -m unittest -q", command: "python -m unittest -q", exit_code: 1,
    observation: "F..\n======================================================================\nFAIL: test_odd (test_stats.StatsTest)\n----------------------------------------------------------------------\nAssertionError: 3.0 != 2.0\n\nRan 3 tests in 0.001s\n\nFAILED (failures=1)\n",
    prompt_tokens: 140, output_tokens: 9, cached_tokens: 132,
  }),
  makeTurn({
    index: 2, started_at: at(302.1), llm_s: 0.5, exec_s: 0.04, action: "sed -i 's/(len(xs) - 1)/len(xs)/' stats.py", command: "sed -i 's/(len(xs) - 1)/len(xs)/' stats.py",
    observation: "", prompt_tokens: 320, output_tokens: 19, cached_tokens: 310,
  }),
  makeTurn({
    index: 3, started_at: at(302.7), llm_s: 0.3, exec_s: 0.15, action: "echo '<img src=x onerror=alert(1)>' && submit", command: "echo '<img src=x onerror=alert(1)>' && submit",
    observation: "<img src=x onerror=alert(1)>\n\u001b[32mok\u001b[0m\n", prompt_tokens: 344, output_tokens: 8, cached_tokens: 338, version_max: 21, truncated_bytes: 2048,
  }),
];

const detail = makeTrajectoryDetail({ id: 4012, num_attempts: 2, attempts: [
  makeAttempt({
    id: 9000, number: 1, status: "failed", reward: null, stop_reason: "", num_turns: 1, grade: {},
    failure: { stage: "infer", kind: "infer_infra", message: "connection to http://127.0.0.1:31001 refused" },
  }),
  makeAttempt({ number: 2 }),
] });

const events = [
  makeEvent({ id: 9, at: at(368), kind: "step.done", sentence: "Step 21 is done: reward 0.578 over 64 valid trajectories; weights v22 are published." }),
  makeEvent({ id: 8, at: at(290), level: "warning", kind: "run.resumed", sentence: "The trainer process was lost in step 16; the run resumed from the checkpoint of step 13 after 4 s. Steps 14 to 16 are superseded." }),
  makeEvent({ id: 7, at: at(205), level: "error", kind: "engine.lost", sentence: "Engine 0 stopped answering; 6 attempts failed as infer/infer_infra and were tried again." }),
  makeEvent({ id: 6, at: at(118), kind: "stage.finished", sentence: "Stage sft: pass@1 17.1 % (11.6 – 23.4), 60 tasks, 238 valid trajectories, 2 invalid." }),
  makeEvent({ id: 5, at: at(5), kind: "stage.started", sentence: "Stage base began on 60 held-out tasks of 5 repositories, 4 attempts each." }),
  makeEvent({ id: 4, at: at(2), kind: "run.started", sentence: "The run started on 1 engine and 2 rollout workers." }),
];

const evaluations = [
  makeEvaluation({ tasks: matrix(1), baselines }),
  makeEvaluation({ stage: "sft", weight_version: 1, pass_at_1: { mean: 0.171, low: 0.116, high: 0.234 }, valid_only: 0.173, if_invalid_solved: 0.179, paired: { against: "base", mean: 0.163, low: 0.104, high: 0.226 }, num_valid: 238, num_invalid: 2, tasks: matrix(2), baselines }),
];
function matrix(seed: number) {
  const next = numbers(seed);
  return Array.from({ length: 60 }, (_, i) => {
    const solved = Math.floor(next() * 2 * seed);
    return { task: `held-${String(i).padStart(4, "0")}`, repository: `held-${i % 5}`, num_scheduled: 4, num_ended: 4, num_valid: 4, num_solved: solved, pass_at_1: solved / 4 };
  });
}

export const recipeSource = `version: 1
name: miniature
description: "This proves the machinery, not the model."
seed: 1
model: {path: var/miniature/seed-1/model, context_length: 448}
task_sets: {train: miniature-train, held_out: miniature-held-out}
agent: {format: raw, turn_cap: 10, turn_token_cap: 14, token_cap: 448}
rollout: {max_in_flight: 96, max_infra_attempts: 3}
stages:
  - {kind: eval, name: base, task_set: held_out, attempts: 4}
  - {kind: sft, name: sft-training, traces: var/miniature/seed-1/traces.jsonl, epochs: 4}
  - {kind: eval, name: sft, task_set: held_out, attempts: 4}
  - {kind: rl, name: rl-training, task_set: train, num_steps: 30, groups_per_step: 8, group_size: 8}
  - {kind: eval, name: rl, task_set: held_out, attempts: 4}
`;

const V1 = "*/api/v1";

export const handlers = [
  http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
  http.get(`${V1}/runs`, () =>
    HttpResponse.json(
      page([
        makeRun({ stages: stages.map((stage) => ({ ...stage, pass_at_1: stage.result?.pass_at_1 ?? null })) }),
        makeRun({ id: 6, name: "miniature-seed-3", seed: 3, status: "succeeded", wait_sentence: "", weight_version: 31, finished_at: at(-400), started_at: at(-1100), stages: stages.map((stage) => ({ ...stage, status: "succeeded", num_done: stage.num_total ?? 0, pass_at_1: stage.kind === "eval" ? 0.62 : null })) }),
        makeRun({ id: 5, name: "miniature-seed-2", seed: 2, status: "failed", wait_sentence: "", stop_reason: "The trainer died four times at step 3: see the event feed.", finished_at: at(-1200), started_at: at(-1500) }),
        makeRun({ id: 4, name: "first try", status: "cancelled", wait_sentence: "", stop_reason: "Stopped by ada: wrong recipe.", started_at: null, finished_at: at(-9000) }),
      ]),
    ),
  ),
  http.get(`${V1}/runs/7`, () => HttpResponse.json(run)),
  http.get(`${V1}/runs/7/metrics`, ({ request }) => {
    const names = (new URL(request.url).searchParams.get("name") ?? "").split(",");
    return HttpResponse.json({ series: names.map((name) => series.find((one) => one.name === name) ?? { name, unit: "", points: [] }) });
  }),
  http.get(`${V1}/runs/7/steps`, () => HttpResponse.json(page([...steps].reverse()))),
  http.get(`${V1}/runs/7/events`, () => HttpResponse.json(page(events))),
  http.get(`${V1}/runs/7/evals`, () => HttpResponse.json({ evaluations })),
  http.get(`${V1}/runs/7/recipe`, () => HttpResponse.json({ source: recipeSource, recipe: {} })),
  http.get(`${V1}/runs/7/groups`, () =>
    HttpResponse.json(
      page([
        makeGroup({ id: 313, status: "open", num_ended: 5, num_valid: null, reward_mean: null, reward_std: null, step: null, finished_at: null, ready_at: null }),
        makeGroup({ id: 312, status: "ready", step: null, finished_at: null }),
        makeGroup(),
        makeGroup({ id: 310, status: "dropped", drop_reason: "too_few_valid", num_valid: 3, step: null }),
      ]),
    ),
  ),
  http.get(`${V1}/runs/7/trajectories/facets`, () => HttpResponse.json(makeTrajectoryFacets())),
  http.get(`${V1}/runs/7/trajectories`, ({ request }) => {
    const query = new URL(request.url).searchParams;
    const status = query.get("status");
    const from = Number(query.get("cursor") ?? 0);
    const found = trajectories.filter((one) => status === null || one.status === status);
    const next = from + 100 < found.length ? String(from + 100) : null;
    return HttpResponse.json(page(found.slice(from, from + 100), next));
  }),
  http.get(`${V1}/trajectories/:id`, ({ params }) => {
    const known = trajectories.find((one) => String(one.id) === params.id);
    return HttpResponse.json(known === undefined || params.id === "4012" ? detail : makeTrajectoryDetail({ ...known, attempts: [makeAttempt({ status: known.status === "failed" ? "failed" : "completed", reward: known.reward, failure: known.failure, grade: known.failure === null ? makeAttempt().grade : {} })] }));
  }),
  http.get(`${V1}/trajectories/:id/turns`, () => HttpResponse.json(page(turns))),
  http.get(`${V1}/recipes`, () => HttpResponse.json(page([makeRecipe({ source: recipeSource }), makeRecipe({ id: 2, name: "two-steps" })]))),
  http.post(`${V1}/preflight`, () =>
    HttpResponse.json({
      is_launchable: true,
      checks: [
        { name: "recipe", level: "ok", sentence: "The recipe is complete.", configured: null, measured: null, pointer: "" },
        { name: "contamination", level: "ok", sentence: "No training repository is held out.", configured: null, measured: "0 of 12", pointer: "/task_sets" },
        { name: "concurrency", level: "warning", sentence: "Admission fills 192 trajectories, more than the 96 in flight allowed.", configured: 96, measured: 192, pointer: "/rollout/max_in_flight" },
      ],
    }),
  ),
  http.get(`${V1}/sandboxes`, () =>
    HttpResponse.json(
      page([
        makeSandbox({ id: 3, key: "sb-7-9310", status: "leased", finished_at: null, timings: { admit: 0.002, start: 0.051, setup: 0.028 } }),
        makeSandbox({ id: 2, key: "sb-7-9309", status: "failed", timings: { admit: 0.001 } }),
        ...Array.from({ length: 40 }, (_, i) => makeSandbox({ id: 100 + i, key: `sb-7-${9300 - i}` })),
      ]),
    ),
  ),
  http.get(`${V1}/failures`, () =>
    HttpResponse.json(
      page([
        makeFailureGroup(),
        makeFailureGroup({ id: 2, stage: "start", kind: "start_timeout", fingerprint: "v1:start:start_timeout:no answer within N s", message: "no answer within 20 s", num_failures: 2 }),
        makeFailureGroup({ id: 3, stage: "verify", kind: "verify_infra", fingerprint: "v1:verify:verify_infra:reward file is missing", message: "reward file is missing", num_failures: 1 }),
      ]),
    ),
  ),
  http.get(`${V1}/failures/1`, () => HttpResponse.json(makeFailureGroup())),
  http.get(`${V1}/failures/1/members`, () => HttpResponse.json(page(Array.from({ length: 6 }, (_, i) => makeFailure({ id: i + 1, trajectory_id: 3970 + i }))))),
  http.get(`${V1}/engines`, () => HttpResponse.json(page([makeEngine(), makeEngine({ id: 2, index: 1, status: "syncing", weight_version: 21, num_in_flight: 0, load: {} })]))),
  http.get(`${V1}/workers`, () =>
    HttpResponse.json(
      page([
        makeWorker(),
        makeWorker({ id: 2, name: "rollout-2@box", pid: 4712 }),
        makeWorker({ id: 3, name: "train-1@box", kind: "train", num_slots: 1, num_busy: 1, pid: 4713 }),
        makeWorker({ id: 4, name: "engine-1@box", kind: "engine", num_slots: 2, num_busy: 1, pid: 4714 }),
        makeWorker({ id: 5, name: "rollout-0@box", status: "lost", num_busy: 0, pid: 4001 }),
      ]),
    ),
  ),
];
