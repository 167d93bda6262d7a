import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { patchQuery, type Skeleton } from "../../api/inspector";
import type { Attempt, TrajectoryDetail } from "../../api/types";
import { AttemptReward } from "../../components/Reward";
import { Elapsed, Time } from "../../components/Time";
import { ABSENT, formatCount, formatDuration, formatNumber, formatShare, visibleText } from "../../lib/format";
import { longestLoop, type OutlineTurn } from "../../lib/outline";
import { parsePatch } from "../../lib/patch";
import { versions } from "../../lib/turns";
import { ContextChart } from "./ContextChart";
import classes from "./FactsPane.module.css";
import { endOf } from "./LoopStepper";

type Props = {
  trajectory: TrajectoryDetail;
  attempt: Attempt;
  skeleton: Skeleton;
  turns: readonly OutlineTurn[];
  isHidden: boolean;
  onSelect: (turn: number) => void;
};

/** What is known of the attempt beside its texts. */
export function FactsPane({ trajectory, attempt, skeleton, turns, isHidden, onSelect }: Props) {
  const toggle = (
    <Link
      from="/trajectories/$trajectory" className={classes.toggle} resetScroll={false} aria-label={isHidden ? "Show facts" : "Hide facts"}
      search={(old) => ({ ...old, facts: isHidden ? undefined : ("off" as const) })}
    >
      {isHidden ? "‹" : "›"}
    </Link>
  );
  if (isHidden) return <aside className={classes.hidden} aria-label="Facts">{toggle}</aside>;
  return (
    <aside className={classes.facts} aria-label="Facts">
      <header className={classes.head}>
        <h2>Facts</h2>
        {toggle}
      </header>
      <dl className={classes.list}>
        <Outcome trajectory={trajectory} attempt={attempt} />
        <Cost attempt={attempt} turns={turns} />
        <Milestones trajectory={trajectory} attempt={attempt} skeleton={skeleton} onSelect={onSelect} />
      </dl>
      <Loops skeleton={skeleton} onSelect={onSelect} />
      <ContextChart turns={turns} cap={skeleton.token_cap} onSelect={onSelect} />
    </aside>
  );
}

function Outcome({ trajectory, attempt }: Pick<Props, "trajectory" | "attempt">) {
  return (
    <>
      <Fact name="Reward">
        <AttemptReward attempt={attempt} />
        {attempt.is_attributed_to_policy && " · attributed: policy"}
      </Fact>
      <Fact name="Advantage">{formatNumber(trajectory.advantage)}</Fact>
      <Fact name="Stopped by">{endOf(attempt)}</Fact>
      <Fact name="Weights">{versions(attempt)}</Fact>
      <Fact name="Trained in step">{trajectory.step_index === null ? ABSENT : formatCount(trajectory.step_index)}</Fact>
    </>
  );
}

function Cost({ attempt, turns }: Pick<Props, "attempt" | "turns">) {
  const queue = turns.some((turn) => turn.queue_s !== null) ? turns.reduce((sum, turn) => sum + (turn.queue_s ?? 0), 0) : null;
  const calls = turns.length + attempt.num_llm_errors;
  return (
    <>
      <Fact name="Started"><Time at={attempt.started_at} /></Fact>
      <Fact name="Took"><Elapsed from={attempt.started_at} to={attempt.finished_at} /></Fact>
      <Fact name="LLM">{formatDuration(attempt.timings.llm)}</Fact>
      <Fact name="of it in queue">{formatDuration(queue)}</Fact>
      <Fact name="Sandbox">{formatDuration(attempt.timings.exec)}</Fact>
      <Fact name="Verify">{formatDuration(attempt.timings.verify)}</Fact>
      <Fact name="Turns">{formatCount(turns.length)}</Fact>
      <Fact name="Generated tokens">{formatCount(attempt.output_tokens)}</Fact>
      <Fact name="Prompt tokens">{formatCount(attempt.prompt_tokens)}</Fact>
      <Fact name="Failed calls">
        {formatCount(attempt.num_llm_errors)} of {formatCount(calls)}
        {attempt.num_llm_errors > 0 && ` · ${formatShare(attempt.num_llm_errors / calls)}`}
      </Fact>
      <Fact name="Engine">{attempt.engine ?? ABSENT}</Fact>
      <Fact name="Worker">{attempt.worker ?? ABSENT}</Fact>
    </>
  );
}

function Milestones({ trajectory, attempt, skeleton, onSelect }: Pick<Props, "trajectory" | "attempt" | "skeleton" | "onSelect">) {
  const patch = useQuery(patchQuery(trajectory.id, attempt.number));
  const diff = patch.data === undefined || patch.data.patch === "" ? undefined : parsePatch(patch.data.patch);
  const added = diff?.files.reduce((sum, file) => sum + file.numAdded, 0);
  const removed = diff?.files.reduce((sum, file) => sum + file.numRemoved, 0);
  return (
    <>
      <Fact name="First edit"><TurnLink turn={skeleton.first_edit} onSelect={onSelect} /></Fact>
      <Fact name="First test run"><TurnLink turn={skeleton.first_test} onSelect={onSelect} /></Fact>
      <Fact name="Submitted"><TurnLink turn={skeleton.submit} onSelect={onSelect} /></Fact>
      <Fact name="Errors">{formatCount(skeleton.errors.length)} of {formatCount(skeleton.turns.index.length)} turns</Fact>
      <Fact name="Patch">
        {diff === undefined || diff.files.length === 0 ? ABSENT : (
          <Link from="/trajectories/$trajectory" search={(old) => ({ ...old, tab: "patch" as const })} resetScroll={false}>
            {diff.files.length} {diff.files.length === 1 ? "file" : "files"}, +{added} −{removed}
          </Link>
        )}
      </Fact>
    </>
  );
}

/** The same command again and again: in a row it is a loop. */
function Loops({ skeleton, onSelect }: Pick<Props, "skeleton" | "onSelect">) {
  const loop = longestLoop(skeleton);
  if (skeleton.repeats.length === 0) return null;
  return (
    <section className={classes.loops} aria-label="Repeated commands">
      <h3>{loop === undefined ? "Repeated commands" : `Loop: ${loop.count} times in a row from turn ${loop.from}`}</h3>
      <ul>
        {skeleton.repeats.slice(0, 5).map(({ command, turns }) => (
          <li key={turns[0]}>
            <code>{visibleText(command)}</code>
            <span>
              ×{turns.length}: {turns.slice(0, 6).map((turn) => <TurnLink key={turn} turn={turn} onSelect={onSelect} />)}
              {turns.length > 6 && "…"}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function TurnLink({ turn, onSelect }: { turn: number | null; onSelect: (turn: number) => void }) {
  if (turn === null) return <>{ABSENT}</>;
  return (
    <button type="button" className={classes.turn} onClick={() => onSelect(turn)}>
      turn {turn}
    </button>
  );
}
