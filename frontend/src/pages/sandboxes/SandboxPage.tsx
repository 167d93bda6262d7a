import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { sandboxQuery } from "../../api/fleet";
import type { Failure, SandboxDetail } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { Page } from "../../components/Page";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatCount, formatNumber, words } from "../../lib/format";
import { ATTEMPT_STATUS, GROUP_STATUS, SANDBOX_STATUS } from "../../lib/status";
import { useFleet } from "../../live/useFleet";
import { EvidenceLines } from "./EvidenceLines";
import { LifeStepper } from "./LifeStepper";
import { UnsafeNotice } from "./SandboxFleet";
import classes from "./Sandboxes.module.css";

const route = getRouteApi("/shell/sandboxes/$sandbox");

/** One box: its life step by step, what failed, and what that did to the training. */
export function SandboxPage() {
  const { sandbox: id } = route.useParams();
  const { line } = route.useSearch();
  const { data: detail } = useSuspenseQuery(sandboxQuery(id));
  useFleet();
  const { sandbox: box, failure, policy, effect } = detail;
  return (
    <Page
      title={`Sandbox ${box.key}`}
      badge={<StatusBadge face={SANDBOX_STATUS[box.status]} {...(box.is_orphan ? { detail: "orphan: no attempt in flight has it" } : {})} />}
      lead={<Facts detail={detail} />}
      actions={<CopyAs path={`/api/v1/sandboxes/${id}`} />}
    >
      <div className={classes.page}>
        {box.level === "unsafe" && <UnsafeNotice num={1} />}
        <LifeStepper life={detail.life} />
        {failure !== null && (
          <section className={classes.section} aria-labelledby="failure">
            <h2 id="failure">Failure</h2>
            <StatRow label="Failure">
              <Stat label="Stage" value={failure.stage} />
              <Stat label="Class" value={words(failure.kind)} {...(failure.is_by_policy ? { note: "suspected: the agent's own doing" } : {})} />
              <Stat label="Host" value={failure.host || ABSENT} />
              <Stat label="Engine" value={failure.engine || ABSENT} />
              <Stat label="When" value={<Time at={failure.at} />} />
            </StatRow>
            <p>{policy?.sentence}</p>
            <CodeBlock label="message" text={failure.message} />
            <h3 className={classes.sub}>Evidence</h3>
            <EvidenceLines sandbox={id} evidence={failure.evidence} line={line} />
          </section>
        )}
        {effect !== null && <Effect effect={effect} run={box.run_id} />}
        {failure !== null && (
          <section className={classes.section} aria-labelledby="alike">
            <h2 id="alike">Others with this fingerprint</h2>
            <p className={classes.note}>
              {formatCount(detail.num_alike)} other {detail.num_alike === 1 ? "failure" : "failures"} of{" "}
              <Link to="/failures/$group" params={{ group: failure.group }} search={{}}>
                this group
              </Link>
              {detail.num_alike > detail.alike.length && `, the newest ${detail.alike.length} below`}.
            </p>
            <DataTable label="Others with this fingerprint" columns={ALIKE} rows={detail.alike} rowKey={(one) => one.id} empty={null} />
          </section>
        )}
        {failure === null && <p className={classes.note}>No infrastructure failure is recorded for the attempt of this box.</p>}
      </div>
    </Page>
  );
}

function Facts({ detail: { sandbox: box, attempt } }: { detail: SandboxDetail }) {
  return (
    <p className={classes.facts}>
      <span>
        {box.driver} · {box.level || "isolation not said"}
      </span>
      <span>worker {box.worker || ABSENT}</span>
      {attempt !== null && attempt.host !== "" && <span>host {attempt.host}</span>}
      {box.run_id !== null && (
        <Link to="/runs/$run/sandboxes" params={{ run: box.run_id }}>
          run {box.run_id}
        </Link>
      )}
      {attempt !== null && (
        <>
          <Link to="/trajectories/$trajectory" params={{ trajectory: attempt.trajectory_id }} search={{ attempt: attempt.number }}>
            trajectory {attempt.trajectory_id}, attempt {attempt.number}
          </Link>
          <span>
            {attempt.stage} · {attempt.task}
          </span>
        </>
      )}
      <span>
        created <Time at={box.created_at} />, lived <Elapsed from={box.created_at} to={box.finished_at} />
      </span>
    </p>
  );
}

function Effect({ effect, run }: { effect: NonNullable<SandboxDetail["effect"]>; run: number | null }) {
  const { later } = effect;
  const usable = effect.is_group_usable === null ? "Still open" : effect.is_group_usable ? "Yes" : "No";
  return (
    <section className={classes.section} aria-labelledby="effect">
      <h2 id="effect">Effect on training</h2>
      <p>{effect.sentence}</p>
      <StatRow label="Effect on training">
        <Stat
          label="This attempt"
          value={effect.is_invalid ? "Invalid" : effect.is_attributed_to_policy ? "Reward 0" : "Valid"}
          note={effect.is_invalid ? "no reward; left out of every mean" : effect.is_attributed_to_policy ? "attributed to the policy" : "not touched by a failure"}
        />
        <Stat
          label="Tried again"
          value={later === null ? "No" : `Attempt ${later.number}`}
          {...(later === null ? {} : { note: <StatusBadge face={ATTEMPT_STATUS[later.status]} {...(later.reward === null ? {} : { detail: `reward ${formatNumber(later.reward)}` })} /> })}
        />
        <Stat label="Trajectory" value={effect.trajectory_status} note={effect.reward === null ? "no reward" : `reward ${formatNumber(effect.reward)}`} />
        <Stat
          label="Group"
          value={
            run === null ? (
              effect.group
            ) : (
              <Link to="/runs/$run/groups/$group" params={{ run, group: effect.group }}>
                {effect.group}
              </Link>
            )
          }
          note={<StatusBadge face={GROUP_STATUS[effect.group_status]} />}
        />
        <Stat
          label="Valid members" value={formatCount(effect.num_valid)} unit={`of ${formatCount(effect.num_members)}`}
          {...(effect.required_valid === null ? {} : { note: `${effect.required_valid} needed` })}
        />
        <Stat label="Group usable" value={usable} note={effect.required_valid === null ? "an evaluation counts every member" : "for its baseline"} />
      </StatRow>
    </section>
  );
}

const ALIKE: Column<Failure>[] = [
  { id: "at", header: "When", width: 120, cell: (failure) => <Time at={failure.at} /> },
  { id: "message", header: "Message", width: 420, cell: (failure) => <code title={failure.message}>{failure.message}</code> },
  {
    id: "trajectory", header: "Trajectory", width: 100, align: "right",
    cell: ({ trajectory_id: trajectory }) =>
      trajectory === null ? (
        ABSENT
      ) : (
        <Link to="/trajectories/$trajectory" params={{ trajectory }}>
          {trajectory}
        </Link>
      ),
  },
  { id: "run", header: "Run", width: 60, align: "right", cell: (failure) => failure.run_id ?? ABSENT },
  { id: "host", header: "Host", width: 130, cell: (failure) => failure.host || ABSENT },
  { id: "driver", header: "Driver", width: 90, cell: (failure) => failure.driver || ABSENT },
];
