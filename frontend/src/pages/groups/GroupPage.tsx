import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { groupQuery } from "../../api/groups";
import type { GroupDetail } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { EmptyState } from "../../components/EmptyState";
import { type Lane, Lanes } from "../../components/Lanes";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { ABSENT, formatCount, formatNumber, words } from "../../lib/format";
import type { Segment } from "../../lib/lanes";
import { GROUP_STATUS, OUTCOME, outcomeOf } from "../../lib/status";
import { Comparison } from "./Comparison";
import { ZERO_GRADIENT } from "./gradient";
import classes from "./groups.module.css";

const route = getRouteApi("/shell/runs/$run/groups/$group");

/** Siblings side by side: the same task and weights, and where they parted. */
export function GroupPage() {
  const { run, group: id } = route.useParams();
  const { turn } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: group } = useSuspenseQuery(groupQuery(run, id));
  const figure = useMemo(() => lanesOf(group), [group]);
  if (group.run !== run) {
    return (
      <EmptyState title={`Group ${id} is of another run`}>
        <Link to="/runs/$run/groups/$group" params={{ run: group.run, group: id }}>
          Open it in run {group.run}
        </Link>
      </EmptyState>
    );
  }
  const open = (trajectory: number | string) => {
    navigate({ to: "/trajectories/$trajectory", params: { trajectory: Number(trajectory) }, search: { group: id } }).catch(() => undefined);
  };

  return (
    <div className={classes.page}>
      <header className={classes.heading}>
        <h2>Group {id}</h2>
        <StatusBadge face={GROUP_STATUS[group.status]} {...(group.drop_reason ? { detail: words(group.drop_reason) } : {})} />
        <span>{group.task.key}, {group.stage}</span>
        <Link to="/runs/$run/groups" params={{ run }}>All groups</Link>
        <Link to="/runs/$run/trajectories" params={{ run }} search={{ group: id }}>In the trajectory table</Link>
        <CopyAs path={`/api/v1/groups/${id}`} />
      </header>
      <Baseline group={group} />
      <Lanes label="Members on one axis" note="from the group's first lease; newest attempts, turns one after the other" lanes={figure.lanes} from={0} to={figure.to} onOpen={open} />
      <Comparison
        group={group} turn={turn}
        onTurn={(next) => {
          navigate({ search: { turn: next }, replace: true }).catch(() => undefined);
        }}
      />
    </div>
  );
}

const ESTIMATOR = { grpo: "(reward − mean) / std", dr_grpo: "reward − mean", rloo: "reward − mean of the others" } as const;

/** What the estimator made of the rewards, and why nothing where nothing came of them. */
function Baseline({ group }: { group: GroupDetail }) {
  const invalid = group.members.filter(({ trajectory }) => outcomeOf(trajectory) === "invalid").length;
  return (
    <section aria-labelledby="baseline">
      <h2 id="baseline" className={classes.hidden}>What the estimator used</h2>
      <StatRow label="What the estimator used">
        <Stat label="Valid members" value={`${formatCount(group.num_valid)} of ${group.num_members}`} {...(group.min_valid === null ? {} : { note: `${group.min_valid} needed` })} />
        <Stat label="Mean reward" value={formatNumber(group.reward_mean)} note="of the valid" />
        <Stat label="Standard deviation" value={formatNumber(group.reward_std)} note="of the valid, n − 1" />
        <Stat label="Advantage" value={group.estimator === null ? ABSENT : words(group.estimator)} note={group.estimator === null ? "an evaluation: none" : ESTIMATOR[group.estimator]} />
        <Stat label="Step" value={formatCount(group.step_index)} />
        <Stat label="Oldest weights" value={group.oldest_version === null ? ABSENT : `v${group.oldest_version}`} />
      </StatRow>
      {group.zero_gradient !== "" && (
        <p className={classes.reason}>
          <b>Zero gradient: {ZERO_GRADIENT[group.zero_gradient].label}.</b> {ZERO_GRADIENT[group.zero_gradient].meaning}
        </p>
      )}
      {invalid > 0 && (
        <p className={classes.reason}>
          {invalid} of {group.num_members} members {invalid === 1 ? "is" : "are"} invalid (hatched): the infrastructure failed {invalid === 1 ? "it" : "them"}, so neither the mean nor the deviation
          knows {invalid === 1 ? "it" : "them"}.
        </p>
      )}
    </section>
  );
}

const seconds = (iso: string) => Date.parse(iso) / 1000;

/** Turns in their order from the end of the setup; the time between turns is not known here. */
function lanesOf({ members }: GroupDetail): { lanes: Lane[]; to: number } {
  const zero = Math.min(...members.flatMap(({ trajectory }) => (trajectory.started_at === null ? [] : [seconds(trajectory.started_at)])));
  const lanes = members.map(({ trajectory, commands }): Lane => {
    const outcome = outcomeOf(trajectory);
    const lane = { key: trajectory.id, label: `#${trajectory.id}`, note: `${OUTCOME[outcome].label.toLowerCase()} · ${trajectory.num_turns} turns`, tone: OUTCOME[outcome].tone };
    if (trajectory.started_at === null) return { ...lane, segments: [] };
    const from = seconds(trajectory.started_at) - zero;
    const { start = 0, setup = 0, verify = 0, teardown = 0 } = trajectory.timings;
    const end = trajectory.duration_s === null ? null : from + trajectory.duration_s;
    if (outcome === "invalid") return { ...lane, segments: [{ from, to: end ?? from, color: "--tone-invalid", label: "failed attempt", isHatched: true }] };
    const segments: Segment[] = start + setup > 0 ? [{ from, to: from + start + setup, color: "--role-sandbox", label: "start, setup" }] : [];
    let at = from + start + setup;
    for (const { llm_s, exec_s } of commands) {
      segments.push({ from: at, to: at + llm_s, color: "--role-llm", label: "LLM" });
      if (exec_s > 0) segments.push({ from: at + llm_s, to: at + llm_s + exec_s, color: "--role-rollout", label: "shell" });
      at += llm_s + exec_s;
    }
    if (verify > 0 && end !== null) segments.push({ from: end - teardown - verify, to: end - teardown, color: "--tone-solved", label: "tests" });
    return { ...lane, segments };
  });
  return { lanes, to: Math.max(1, ...lanes.flatMap(({ segments }) => segments.map(({ to }) => to))) };
}
