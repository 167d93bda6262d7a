import { Button } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";

import { stepDetailQuery } from "../../api/overview";
import type { BatchGroup, BatchMember, Step, StepDetail } from "../../api/types";
import { Lanes } from "../../components/Lanes";
import { Reward } from "../../components/Reward";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { ABSENT, formatCount, formatNumber, formatShare } from "../../lib/format";
import { tailShare } from "../../lib/quantiles";
import { readValue } from "../../lib/series";
import { STEP_STATUS } from "../../lib/status";
import { useKeys } from "../../lib/useKeys";
import { batchOf, durations } from "./batch";
import classes from "./StepsTab.module.css";

type Props = { run: number; step: number; steps: readonly Step[]; onStep: (step: number | undefined) => void };

/** One step from near: its phases, its batch as lanes, the rewards and advantages of its groups, all its metrics. */
export function StepView({ run, step: id, steps, onStep }: Props) {
  const { data: step } = useSuspenseQuery(stepDetailQuery(run, id));
  const navigate = useNavigate();
  const place = steps.findIndex((one) => one.id === id);
  const before = steps[place - 1];
  const after = place === -1 ? undefined : steps[place + 1];
  const go = (to: Step | undefined) => {
    if (to !== undefined) onStep(to.id);
  };
  useKeys({ j: () => go(before), k: () => go(after) });
  const batch = batchOf(step);
  const times = step.groups.flatMap(({ members }) => durations(members));
  return (
    <div className={classes.step}>
      <header className={classes.head}>
        <h2>Step {step.index}</h2>
        <StatusBadge face={STEP_STATUS[step.status]} />
        <span>{step.stage}{step.resume > 0 && `, resume ${step.resume}`}, weights v{step.trained_version}{step.published_version !== null && ` → v${step.published_version}`}</span>
        <Button.Group ml="auto">
          <Button variant="default" disabled={before === undefined} onClick={() => go(before)} title="J">Earlier</Button>
          <Button variant="default" disabled={after === undefined} onClick={() => go(after)} title="K">Later</Button>
          <Button variant="default" onClick={() => onStep(undefined)}>All steps</Button>
        </Button.Group>
      </header>
      <StatRow label="The step">
        <Stat label="Reward" value={formatNumber(step.reward_mean)} note="mean of valid trajectories" />
        <Stat label="Groups" value={formatCount(step.num_groups)} note={`${formatCount(step.groups.filter(({ reward_std }) => (reward_std ?? 0) > 0).length)} with mixed rewards`} />
        <Stat label="Trajectories" value={formatCount(step.num_trajectories)} note="trained" />
        <Stat label="Tail share" value={formatShare(tailShare(times))} note="of the longest, after 90 % had ended" />
        <Stat label="Wait" value={formatNumber(step.wait_s)} unit="s" note={`of ${formatNumber(step.wait_s + step.logprob_s + step.update_s)} s`} />
      </StatRow>
      <Lanes label="Phases" note="publishing is not part of the step's sum" lanes={phases(step)} from={0} to={step.wait_s + step.logprob_s + step.update_s + step.publish_s || 1} />
      <Groups run={run} groups={step.groups} />
      <Lanes
        label="Its trajectories" note="seconds since the first of them began; slowest group first"
        lanes={batch.lanes} from={batch.from} to={batch.to} marks={batch.consumedAt === null ? [] : [{ at: batch.consumedAt, label: "batch claimed" }]}
        empty={<p>No group has been claimed yet</p>}
        onOpen={(trajectory) => {
          navigate({ to: "/trajectories/$trajectory", params: { trajectory: Number(trajectory) } }).catch(() => undefined);
        }}
      />
      <section className={classes.box} aria-label="Metrics of the step">
        <h3>Metrics</h3>
        {step.values.length === 0 ? "They are recorded when the step has published." : (
          <dl className={classes.metrics}>
            {step.values.map(({ name, value }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{formatNumber(readValue(value))}</dd>
              </div>
            ))}
          </dl>
        )}
      </section>
    </div>
  );
}

function phases(step: StepDetail) {
  const parts = [
    { label: "wait", length: step.wait_s, color: "--role-rollout" },
    { label: "log-prob", length: step.logprob_s, color: "--role-other" },
    { label: "update", length: step.update_s, color: "--role-trainer" },
  ];
  let at = 0;
  const segments = parts.map(({ label, length, color }) => {
    const segment = { label, color, from: at, to: at + length };
    at += length;
    return segment;
  });
  return [
    { key: "trainer", label: "trainer", segments },
    { key: "publish", label: "publish", segments: [{ label: "publish", color: "--role-llm", from: at, to: at + step.publish_s }] },
  ];
}

function Groups({ run, groups }: { run: number; groups: readonly BatchGroup[] }) {
  const most = Math.max(0, ...groups.map(({ members }) => members.length));
  return (
    <section className={classes.box} aria-label="Groups of the step">
      <h3>Groups</h3>
      {groups.length === 0 ? "None has been claimed yet." : (
        <table className={`${classes.table} ${classes.members}`}>
          <thead>
            <tr>
              <th scope="col">task</th><th scope="col">valid</th><th scope="col">mean</th><th scope="col">std</th>
              {Array.from({ length: most }, (_, index) => <th key={index} scope="col">{index + 1}</th>)}
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <tr key={group.id}>
                <th scope="row"><Link to="/runs/$run/groups/$group" params={{ run, group: group.id }}>{group.task.key}</Link></th>
                <td>{formatCount(group.num_valid)} / {group.members.length}</td>
                <td>{formatNumber(group.reward_mean)}</td>
                <td>{formatNumber(group.reward_std)}</td>
                {Array.from({ length: most }, (_, index) => <td key={index}><MemberCell member={group.members[index]} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Reward above, advantage below. */
function MemberCell({ member }: { member: BatchMember | undefined }) {
  if (member === undefined) return null;
  return (
    <Link to="/trajectories/$trajectory" params={{ trajectory: member.id }} className={classes.member}>
      <Reward trajectory={member} />
      <small>{member.advantage === null ? ABSENT : `${member.advantage > 0 ? "+" : ""}${formatNumber(member.advantage)}`}</small>
    </Link>
  );
}
