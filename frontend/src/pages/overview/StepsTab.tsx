import { Button, Select } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { metricsQuery, runQuery, stepsQuery } from "../../api/runs";
import type { Step } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { StatusBadge } from "../../components/StatusBadge";
import { Time } from "../../components/Time";
import { formatCount, formatNumber } from "../../lib/format";
import { optional } from "../../lib/search";
import { STEP_STATUS } from "../../lib/status";
import { StepView } from "./StepView";
import classes from "./StepsTab.module.css";
import { WindowComparison } from "./WindowComparison";
import { curveValues, formatRange, metricOf } from "./windows";

const route = getRouteApi("/shell/runs/$run/steps");
const CURVES = ["rollout/staleness_mean", "rollout/staleness_max"] as const;

/** Every optimizer step, superseded ones as ghosts; one opens to its batch, two windows compare. */
export function StepsTab() {
  const { run: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { data: all } = useSuspenseQuery(stepsQuery(id));
  const { data: series } = useQuery(metricsQuery(id, CURVES));
  const set = (change: Partial<typeof search>) => {
    navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
  };
  const shown = useMemo(
    () => all.filter(({ stage, resume }) => (search.stage ?? stage) === stage && (search.resume ?? String(resume)) === String(resume)).reverse(),
    [all, search.stage, search.resume],
  );
  const columns = useMemo(() => {
    const staleness = CURVES.map((name) => curveValues(series?.find((one) => one.name === name), run.stages));
    return columnsOf(staleness[0] ?? (() => null), staleness[1] ?? (() => null));
  }, [series, run.stages]);

  if (search.step !== undefined) {
    return <StepView run={id} step={search.step} steps={all} onStep={(step) => set({ step })} />;
  }
  const stages = [...new Set(all.map(({ stage }) => stage))];
  const resumes = [...new Set(all.map(({ resume }) => resume))];
  const first = all[0]?.index ?? 1;
  const last = all.at(-1)?.index ?? 1;
  const isComparing = search.a !== undefined || search.b !== undefined;
  return (
    <>
      <Filters>
        {stages.length > 1 && (
          <Select aria-label="Stage" placeholder="Any stage" clearable data={stages} value={search.stage ?? null} onChange={(stage) => set({ stage: stage ?? undefined })} />
        )}
        <Select
          aria-label="Resume" placeholder="Any resume" clearable value={search.resume ?? null}
          data={resumes.map((resume) => ({ value: String(resume), label: resume === 0 ? "First start" : `Resume ${resume}` }))}
          onChange={(resume) => set({ resume: resume ?? undefined })}
        />
        <Button
          variant="default" aria-pressed={isComparing} disabled={all.length < 2}
          onClick={() => {
            const size = Math.max(1, Math.min(20, Math.floor((last - first + 1) / 2)));
            set(isComparing ? { a: undefined, b: undefined } : { a: formatRange({ from: first, to: first + size - 1 }), b: formatRange({ from: last - size + 1, to: last }) });
          }}
        >
          Compare windows
        </Button>
        <CopyAs path={`/api/v1/runs/${id}/steps`} query={{ ...optional("stage", search.stage), ...optional("resume", search.resume) }} />
      </Filters>
      {isComparing && <WindowComparison steps={shown} a={search.a ?? ""} b={search.b ?? ""} onRange={set} />}
      <DataTable
        label="Steps" columns={columns} rows={shown} rowKey={(step) => step.id}
        cols={search.cols} onCols={(cols) => set({ cols })}
        onOpen={(step) => set({ step: step.id })}
        empty={
          all.length === 0 ? (
            <EmptyState title="No step yet">A step begins when an RL stage has enough ready groups: {run.wait_sentence || "none has started"}</EmptyState>
          ) : (
            <EmptyState title="No step of this stage and resume">Take a filter away to see the others.</EmptyState>
          )
        }
      />
    </>
  );
}

function columnsOf(mean: (step: Step) => number | null, oldest: (step: Step) => number | null): Column<Step>[] {
  const figure = (id: string, header: string, of: (step: Step) => number | null, more: Partial<Column<Step>> = {}): Column<Step> => ({
    id, header, width: 78, align: "right", cell: (step) => <Ghost step={step}>{formatNumber(of(step))}</Ghost>, sortValue: of, ...more,
  });
  const metric = (id: string, header: string, name: string, more: Partial<Column<Step>> = {}) => figure(id, header, (step) => metricOf(step, name), more);
  return [
    { id: "step", header: "Step", width: 72, align: "right", cell: (step) => <Ghost step={step}>{step.index}</Ghost>, sortValue: (step) => step.index },
    { id: "state", header: "State", width: 124, cell: (step) => <StatusBadge face={STEP_STATUS[step.status]} /> },
    figure("resume", "Resume", (step) => step.resume, { width: 68 }),
    figure("reward", "Reward", (step) => step.reward_mean, { meaning: "Mean over the valid trajectories of the step." }),
    figure("groups", "Groups", (step) => step.num_groups, { width: 76, isExtra: true }),
    figure("trajectories", "Traj.", (step) => step.num_trajectories, { width: 68, meaning: "Trajectories trained: the valid members of its groups." }),
    figure("wait", "Wait", (step) => step.wait_s, { unit: "s" }),
    figure("logprob", "Log-prob", (step) => step.logprob_s, { unit: "s", width: 92 }),
    figure("update", "Update", (step) => step.update_s, { unit: "s" }),
    figure("publish", "Publish", (step) => step.publish_s, { unit: "s", meaning: "Not part of the step's sum." }),
    figure("staleness", "Staleness", mean, { width: 86, meaning: "Weight versions behind the trainer: mean by token." }),
    figure("oldest", "Oldest", oldest, { isExtra: true, meaning: "Weight versions behind the trainer: the oldest token." }),
    metric("gap", "Gap", "train/logprob_gap", { unit: "nats", meaning: "Mean |log π − log μ| over trained tokens." }),
    metric("ess", "ESS", "train/ess", { meaning: "Effective sample size over trained tokens." }),
    metric("grad_norm", "Grad norm", "train/grad_norm", { width: 92, meaning: "Before clipping." }),
    {
      id: "zero", header: "Gradient", width: 84, meaning: "None where no group had mixed rewards.",
      cell: (step) => <Ghost step={step}>{metricOf(step, "train/zero_gradient") === 1 ? <span className={classes.none}>none</span> : ""}</Ghost>,
    },
    metric("tokens", "Tokens", "train/tokens", { cell: (step) => <Ghost step={step}>{formatCount(metricOf(step, "train/tokens"))}</Ghost>, width: 92 }),
    { id: "began", header: "Began", width: 124, cell: (step) => <Time at={step.started_at} />, isExtra: true },
    metric("loss", "Loss", "train/loss", { isExtra: true }),
    metric("entropy", "Entropy", "train/entropy", { isExtra: true, unit: "nats", width: 96 }),
  ];
}

/** What a roll-back undid stays readable, but stands back. */
function Ghost({ step, children }: { step: Step; children: React.ReactNode }) {
  return step.status === "superseded" || step.status === "failed" ? <span className={classes.ghost}>{children}</span> : <>{children}</>;
}
