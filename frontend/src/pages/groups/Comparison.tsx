import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { GroupDetail, GroupMember } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { Reward } from "../../components/Reward";
import { ScrollRegion } from "../../components/ScrollRegion";
import { StatusBadge } from "../../components/StatusBadge";
import { commonest, firstDivergence, isSame } from "../../lib/divergence";
import { ABSENT, formatCount, formatDuration, formatNumber, visibleText, words } from "../../lib/format";
import { OUTCOME, outcomeOf } from "../../lib/status";
import { versions } from "../../lib/turns";
import classes from "./groups.module.css";

type Props = { group: GroupDetail; turn: number | undefined; onTurn: (turn: number) => void };

/** Turns that are shown at once. */
const SHOWN = 6;
const LABEL_PX = 168;
const MEMBER_PX = 190;
/** Turns before the one in which they parted. */
const BEFORE = 2;

/** A column a member: what it came to, what it ran around the first divergence, what it left, which tests pass. */
export function Comparison({ group, turn, onTurn }: Props) {
  const { members } = group;
  const divergence = firstDivergence(members.map(({ commands }) => commands));
  const most = Math.max(0, ...members.map(({ commands }) => commands.length));
  const from = Math.max(0, Math.min(turn ?? (divergence ?? 0) - BEFORE, most - SHOWN));
  const shown = Array.from({ length: Math.min(SHOWN, most) }, (_, index) => from + index);
  const tests = [...new Set(members.flatMap(({ grade }) => Object.keys(grade.details ?? {})))].sort();
  const facts: [string, (member: GroupMember) => ReactNode][] = [
    ["Outcome", ({ trajectory }) => <StatusBadge face={OUTCOME[outcomeOf(trajectory)]} />],
    ["Reward", ({ trajectory }) => <Reward trajectory={trajectory} />],
    ["Advantage", ({ trajectory }) => formatNumber(trajectory.advantage)],
    ["Stopped by", ({ trajectory }) => (trajectory.failure === null ? words(trajectory.stop_reason) || ABSENT : `${trajectory.failure.stage}: ${words(trajectory.failure.kind)}`)],
    ["Turns", ({ trajectory }) => formatCount(trajectory.num_turns)],
    ["Tokens out", ({ trajectory }) => formatCount(trajectory.output_tokens)],
    ["Took", ({ trajectory }) => formatDuration(trajectory.duration_s)],
    ["Weights", ({ trajectory }) => versions(trajectory)],
    ["Attempts", ({ trajectory }) => trajectory.num_attempts],
  ];

  return (
    <section aria-labelledby="side-by-side">
      <div className={classes.heading}>
        <h2 id="side-by-side">Side by side</h2>
        <span>{divergence === null ? "All ran the same commands." : `They part at turn ${divergence}.`}</span>
        {most > SHOWN && (
          <span className={classes.pager}>
            <button type="button" disabled={from === 0} onClick={() => onTurn(Math.max(0, from - SHOWN))} aria-label="Turns before">‹</button>
            turns {from} to {from + shown.length - 1} of {most}
            <button type="button" disabled={from + SHOWN >= most} onClick={() => onTurn(from + SHOWN)} aria-label="Turns after">›</button>
            {divergence !== null && <button type="button" onClick={() => onTurn(Math.max(0, divergence - BEFORE))}>First divergence</button>}
          </span>
        )}
      </div>
      <ScrollRegion className={classes.scroller} label="Members side by side">
        <table className={classes.table} style={{ width: LABEL_PX + members.length * MEMBER_PX }}>
          <colgroup>
            <col style={{ width: LABEL_PX }} />
            {members.map(({ trajectory }) => <col key={trajectory.id} />)}
          </colgroup>
          <thead>
            <tr>
              <th scope="col">Member</th>
              {members.map(({ trajectory }) => (
                <th key={trajectory.id} scope="col">
                  <Link to="/trajectories/$trajectory" params={{ trajectory: trajectory.id }} search={{ group: group.id }}>#{trajectory.id}</Link>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {facts.map(([label, cell]) => <Row key={label} label={label} members={members} cell={cell} />)}
            {shown.map((at) => {
              const usual = commonest(members.map(({ commands }) => commands[at]?.command));
              return (
                <Row
                  key={at} label={`Turn ${at}`} isMarked={at === divergence} members={members}
                  cell={({ trajectory, commands }) => {
                    const ran = commands[at];
                    if (ran === undefined) return <span className={classes.absent}>{at >= trajectory.num_turns && trajectory.num_turns > 0 ? "had ended" : ABSENT}</span>;
                    return (
                      <Link to="/trajectories/$trajectory" params={{ trajectory: trajectory.id }} search={{ group: group.id, turn: at }} className={classes.command} data-differs={usual === undefined ? undefined : !isSame(ran.command, usual)} title={visibleText(ran.command)}>
                        <code>{visibleText(ran.command) || "(no command)"}</code>
                        {ran.exit_code !== null && ran.exit_code !== 0 && <span className={classes.exit}>exit {ran.exit_code}</span>}
                      </Link>
                    );
                  }}
                />
              );
            })}
            <Row label="Patch" members={members} cell={(member) => <Patch member={member} />} />
            {tests.map((test) => <Row key={test} label={shortName(test)} title={visibleText(test)} members={members} cell={({ grade }) => <Result value={grade.details?.[test]} />} />)}
          </tbody>
        </table>
      </ScrollRegion>
    </section>
  );
}

type RowProps = { label: string; title?: string; members: readonly GroupMember[]; cell: (member: GroupMember) => ReactNode; isMarked?: boolean };

function Row({ label, title = label, members, cell, isMarked = false }: RowProps) {
  return (
    <tr data-marked={isMarked}>
      <th scope="row" title={title}>{label} {isMarked && <span className={classes.parts}>they part here</span>}</th>
      {members.map((member) => (
        <td key={member.trajectory.id} data-invalid={outcomeOf(member.trajectory) === "invalid"}>{cell(member)}</td>
      ))}
    </tr>
  );
}

/** A test without its file; the whole name is on hover. */
function shortName(test: string): string {
  const kind = /^(fail|pass)_to_pass:/.exec(test)?.[1];
  const name = visibleText(test.split(/::|^(?:fail|pass)_to_pass:/).at(-1) ?? test);
  return kind === undefined ? name : `${name}, ${kind} to pass`;
}

function Patch({ member: { trajectory, patch, is_cut } }: { member: GroupMember }) {
  if (patch === "") return <span className={classes.absent}>{trajectory.status === "completed" ? "no change recorded" : ABSENT}</span>;
  return (
    <div className={classes.patch}>
      <CodeBlock text={patch} label={`patch of ${trajectory.id}`} isWrapped={false} />
      {is_cut && <p>It goes on: <Link to="/trajectories/$trajectory" params={{ trajectory: trajectory.id }} search={{ tab: "patch" }}>the whole patch</Link></p>}
    </div>
  );
}

function Result({ value }: { value: unknown }) {
  if (value === undefined || value === null) return <span className={classes.absent}>{ABSENT}</span>;
  if (value === true) return <span className={classes.pass}>✓ pass</span>;
  if (value === false) return <span className={classes.fail}>✗ fail</span>;
  return <>{typeof value === "number" ? formatNumber(value) : visibleText(typeof value === "string" ? value : JSON.stringify(value)).slice(0, 200)}</>;
}
