import type { ReactNode } from "react";

import type { Attempt, TrajectoryDetail } from "../../api/types";
import { AttemptReward } from "../../components/Reward";
import { ABSENT, formatCount, formatDuration, words } from "../../lib/format";
import type { OutlineTurn } from "../../lib/outline";
import classes from "./LoopStepper.module.css";

type Props = { trajectory: TrajectoryDetail; attempt: Attempt; turns: readonly OutlineTurn[] };
type Part = "issue" | "llm" | "shell" | "tests" | "reward";

/** The agentic loop of the article's figure 1, with the counts and times of this attempt. */
export function LoopStepper({ trajectory, attempt, turns }: Props) {
  const now = currentPart(attempt, turns);
  const commands = turns.filter((turn) => !turn.hasNoAction);
  const llm = attempt.timings.llm ?? sum(turns, (turn) => turn.llm_s);
  const exec = attempt.timings.exec ?? sum(turns, (turn) => turn.exec_s);
  return (
    <ol className={classes.loop} aria-label="Agentic loop">
      <Node part="issue" now={now} name="Issue" figure={trajectory.difficulty === "" ? trajectory.task.repository : words(trajectory.difficulty)} note={`start ${formatDuration(attempt.timings.start)}`} />
      <Node part="llm" now={now} name="LLM" figure={`${formatCount(turns.length)} calls`} note={`${formatDuration(llm)} · ${formatCount(attempt.output_tokens)} tokens`} />
      <li className={classes.turns} aria-label={`${turns.length} turns`}>⇄ ×{formatCount(turns.length)}</li>
      <Node part="shell" now={now} name="Shell" figure={`${formatCount(commands.length)} commands`} note={formatDuration(exec)} />
      <Node part="tests" now={now} name="Tests" figure={attempt.grade.output === undefined ? ABSENT : "verified"} note={formatDuration(attempt.timings.verify)} />
      <Node part="reward" now={now} name="Reward" figure={<AttemptReward attempt={attempt} />} note={endOf(attempt)} />
    </ol>
  );
}

function Node({ part, now, name, figure, note }: { part: Part; now: Part | null; name: string; figure: ReactNode; note: string }) {
  const isNow = part === now;
  return (
    <li className={classes.node} data-part={part} {...(isNow ? { "aria-current": "step" as const } : {})}>
      <span className={classes.name}>
        {name}
        {isNow && <span className={classes.now}> now</span>}
      </span>
      <span className={classes.figure}>{figure}</span>
      <span className={classes.note}>{note}</span>
    </li>
  );
}

/** Where a running attempt is; null when it has ended. Between calls it is the model's turn: a turn is stored when its command ends. */
function currentPart({ status }: Attempt, turns: readonly OutlineTurn[]): Part | null {
  switch (status) {
    case "queued":
    case "starting":
      return "issue";
    case "running":
      return turns.at(-1)?.isSubmit ? "shell" : "llm";
    case "grading":
      return "tests";
    default:
      return null;
  }
}

/** Why it ended, where the policy or the control plane ended it. */
export function endOf({ stop_reason, cancel_reason }: Attempt): string {
  if (stop_reason !== "") return words(stop_reason);
  return cancel_reason === "" ? ABSENT : words(cancel_reason);
}

function sum(turns: readonly OutlineTurn[], value: (turn: OutlineTurn) => number): number {
  return turns.reduce((total, turn) => total + value(turn), 0);
}
