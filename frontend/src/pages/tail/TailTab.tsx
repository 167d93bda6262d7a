import { Select } from "@mantine/core";
import { keepPreviousData, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

import { metricsQuery, runQuery, stepsQuery } from "../../api/runs";
import { capsQuery, type Tail, tailQuery } from "../../api/tail";
import type { Step } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Lanes } from "../../components/Lanes";
import { Loading } from "../../components/Loading";
import { MetricChart } from "../../components/MetricChart";
import { formatCount, formatShare } from "../../lib/format";
import { tailShare } from "../../lib/quantiles";
import { curveOf } from "../overview/figures/Curves";
import { Survival } from "../overview/figures/Survival";
import { CapWhatIf } from "./CapWhatIf";
import { lanesOf } from "./lanes";
import { Stragglers } from "./Stragglers";
import classes from "./TailTab.module.css";

const route = getRouteApi("/shell/runs/$run/tail");
const TAIL_SHARE = "rollout/tail_share";

/** The slowest trajectories hold everything up: how long the tail is, what it waited for, and what a cap would do. */
export function TailTab() {
  const { run: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { data: steps } = useSuspenseQuery(stepsQuery(id));
  const { stage, step, cap = "turns", at } = search;
  const { data: tail, dataUpdatedAt } = useQuery({ ...tailQuery(id, { stage, step }), placeholderData: keepPreviousData, throwOnError: true });
  const { data: recorded } = useQuery({ ...capsQuery(id, stage), placeholderData: keepPreviousData, throwOnError: true });
  const { data: metrics } = useQuery(metricsQuery(id, [TAIL_SHARE]));
  const set = useCallback(
    (change: Partial<typeof search>, replace = false) => {
      navigate({ search: (old) => ({ ...old, ...change }), replace }).catch(() => undefined);
    },
    [navigate],
  );
  const setCap = useCallback((change: Partial<typeof search>) => set(change, true), [set]);
  const open = (trajectory: number | string) => {
    navigate({ to: "/trajectories/$trajectory", params: { trajectory: Number(trajectory) }, search: { tab: "timeline" } }).catch(() => undefined);
  };
  if (tail === undefined || recorded === undefined) return <Loading />;
  const stages = run.stages.filter(({ kind, started_at }) => kind !== "sft" && started_at !== null);
  if (tail.groups.length === 0) {
    return <EmptyState title="No groups yet">{run.wait_sentence || "The tail is drawn from the groups of a step; none has opened."}</EmptyState>;
  }

  return (
    <>
      <Filters>
        <Select
          aria-label="Stage" size="xs" data={stages.map(({ name }) => name)} value={tail.stage} allowDeselect={false}
          onChange={(name) => set({ stage: name ?? undefined, step: undefined })}
        />
        <StepPicker steps={steps.filter((one) => one.stage === tail.stage && one.num_groups > 0)} tail={tail} isNewest={step === undefined} onPick={(next) => set({ step: next })} />
        <CopyAs path={`/api/v1/runs/${id}/tail`} query={{ stage, step }} />
      </Filters>
      <div className={classes.figures}>
        <GroupsFigure tail={tail} now={dataUpdatedAt / 1000} onOpen={open} />
        <div className={classes.pair}>
          <Survival title="How long trajectories take" note={`${formatCount(recorded.seconds.length)} of ${recorded.stage ?? ""}: share still running after`} durations={recorded.seconds} />
          <MetricChart
            title="Tail share" note="of a step's rollout time, after 90 % of its trajectories had ended"
            curves={[curveOf(metrics, TAIL_SHARE, "tail share", "--role-rollout")]} references={[{ value: 0.32, label: "article 32 %" }]} range={{ min: 0 }} height={200}
          />
        </div>
        <CapWhatIf key={cap} stage={recorded.stage} recorded={recorded} cap={cap} at={at} onChange={setCap} />
        <section aria-labelledby="stragglers">
          <h2 id="stragglers">The slowest of these groups, and what each waited for</h2>
          <Stragglers tail={tail} onOpen={open} />
        </section>
      </div>
    </>
  );
}

function GroupsFigure({ tail, now, onOpen }: { tail: Tail; now: number; onOpen: (key: number | string) => void }) {
  const { lanes, to, marks } = useMemo(() => lanesOf(tail.groups, now), [tail, now]);
  const share = tailShare(tail.groups.flatMap(({ members }) => members.flatMap(({ attempts }) => endsOf(attempts))));
  const where = tail.step_index === null ? `the newest ${tail.groups.length} groups` : `the ${tail.groups.length} groups of step ${tail.step_index}`;
  return (
    <Lanes
      label="Groups on one axis" lanes={lanes} from={0} to={to} marks={marks} onOpen={onOpen}
      note={`${where} of ${tail.stage ?? ""}, slowest first; ${formatShare(share)} of the longest one came after 90 % had ended, each from its own start${tail.has_turns ? "" : "; too many turns to draw each"}`}
      legend={[
        { label: "LLM", color: "var(--role-llm)", mark: "block" },
        { label: "shell", color: "var(--role-rollout)", mark: "block" },
        { label: "tests", color: "var(--tone-solved)", mark: "block" },
        { label: "start, setup", color: "var(--role-sandbox)", mark: "block" },
        { label: "failed attempt (hatched)", color: "var(--tone-invalid)", mark: "block" },
        { label: "strip below: weight version, a shade each", color: "var(--version-2)", mark: "block" },
      ]}
    />
  );
}

function endsOf(attempts: Tail["groups"][number]["members"][number]["attempts"]): number[] {
  return attempts.flatMap(({ started_at, finished_at }) => (started_at === null || finished_at === null ? [] : [(Date.parse(finished_at) - Date.parse(started_at)) / 1000]));
}

function StepPicker({ steps, tail, isNewest, onPick }: { steps: readonly Step[]; tail: Tail; isNewest: boolean; onPick: (step: number | undefined) => void }) {
  if (steps.length === 0) return null;
  const at = steps.findIndex(({ id }) => id === tail.step);
  const go = (index: number) => onPick(steps[index]?.id);
  return (
    <span className={classes.steps} data-fits>
      <button type="button" aria-label="Step before" disabled={at <= 0} onClick={() => go(at - 1)}>‹</button>
      <Select
        aria-label="Step" size="xs" searchable w={168} value={isNewest ? "" : String(tail.step)} allowDeselect={false}
        data={[{ value: "", label: `Newest: step ${tail.step_index ?? ""}` }, ...[...steps].reverse().map((step) => ({ value: String(step.id), label: stepName(step) }))]}
        onChange={(value) => onPick(value === null || value === "" ? undefined : Number(value))}
      />
      <button type="button" aria-label="Step after" disabled={at < 0 || at >= steps.length - 1} onClick={() => go(at + 1)}>›</button>
    </span>
  );
}

function stepName({ index, resume, status }: Step): string {
  return `Step ${index}${resume > 0 ? `, resume ${resume}` : ""}${status === "superseded" ? " (superseded)" : ""}`;
}
