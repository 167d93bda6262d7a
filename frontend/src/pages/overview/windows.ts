/** Two windows of steps side by side: mean, number and difference of each figure. Pure. */
import type { MetricSeries, Stage, Step } from "../../api/types";
import { mean, quantile } from "../../lib/quantiles";
import { readValue } from "../../lib/series";

export type StepFigure = { key: string; label: string; unit: string; of: (step: Step) => number | null };

/** A figure that the trainer reported with the step; NaN and infinities as they are. */
export function metricOf(step: Pick<Step, "metrics">, name: string): number | null {
  const value = step.metrics[name];
  return typeof value === "number" || typeof value === "string" ? readValue(value === "nan" ? "NaN" : value) : null;
}

/** Steps are numbered within their stage, curves through the run: by (resume, step of the curve). */
export function curveValues(series: MetricSeries | undefined, stages: readonly Pick<Stage, "name" | "kind" | "num_total">[]): (step: Step) => number | null {
  const points = new Map((series?.points ?? []).map(({ resume, step, value }) => [`${resume}/${step}`, readValue(value)]));
  const offsets = new Map<string, number>();
  let offset = 0;
  for (const { name, kind, num_total } of stages) {
    offsets.set(name, offset);
    if (kind === "rl") offset += num_total ?? 0;
  }
  return (step) => points.get(`${step.resume}/${step.index + (offsets.get(step.stage) ?? 0)}`) ?? null;
}

export const STEP_FIGURES: readonly StepFigure[] = [
  { key: "reward", label: "Reward", unit: "", of: (step) => step.reward_mean },
  { key: "wait", label: "Wait", unit: "s", of: (step) => step.wait_s },
  { key: "logprob", label: "Log-prob", unit: "s", of: (step) => step.logprob_s },
  { key: "update", label: "Update", unit: "s", of: (step) => step.update_s },
  { key: "publish", label: "Publish (apart)", unit: "s", of: (step) => step.publish_s },
  { key: "trajectories", label: "Trajectories", unit: "", of: (step) => step.num_trajectories },
  { key: "tokens", label: "Trained tokens", unit: "", of: (step) => metricOf(step, "train/tokens") },
  { key: "grad_norm", label: "Gradient norm", unit: "", of: (step) => metricOf(step, "train/grad_norm") },
  { key: "gap", label: "Log-prob gap", unit: "nats", of: (step) => metricOf(step, "train/logprob_gap") },
  { key: "ess", label: "ESS", unit: "share", of: (step) => metricOf(step, "train/ess") },
  { key: "zero", label: "Zero gradient", unit: "share of steps", of: (step) => metricOf(step, "train/zero_gradient") },
];

export type Range = { from: number; to: number };
export type WindowSummary = { num: number; mean: number | null; p90: number | null };
export type WindowRow = { figure: StepFigure; a: WindowSummary; b: WindowSummary; difference: number | null };

/** "12-30" or "12"; undefined for anything else. */
export function parseRange(text: string | undefined): Range | undefined {
  const match = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(text ?? "");
  if (match === null) return undefined;
  const from = Number(match[1]);
  const to = Number(match[2] ?? match[1]);
  return from <= to ? { from, to } : undefined;
}

export function formatRange({ from, to }: Range): string {
  return from === to ? String(from) : `${from}-${to}`;
}

/** Done steps only: superseded ones are of another history. */
export function compareWindows(steps: readonly Step[], a: Range, b: Range, figures: readonly StepFigure[] = STEP_FIGURES): WindowRow[] {
  const done = steps.filter(({ status }) => status === "done");
  return figures.map((figure) => {
    const [first, second] = [a, b].map((range) => summarise(done.filter(({ index }) => index >= range.from && index <= range.to), figure));
    const one = first ?? { num: 0, mean: null, p90: null };
    const two = second ?? one;
    return { figure, a: one, b: two, difference: one.mean === null || two.mean === null ? null : two.mean - one.mean };
  });
}

function summarise(steps: readonly Step[], { of }: StepFigure): WindowSummary {
  const values = steps.map(of).filter((value) => value !== null && Number.isFinite(value)) as number[];
  return { num: values.length, mean: mean(values), p90: quantile(values, 0.9) };
}
