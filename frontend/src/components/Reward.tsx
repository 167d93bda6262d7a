import type { Attempt, Trajectory } from "../api/types";
import { ABSENT, formatNumber } from "../lib/format";
import { outcomeOf } from "../lib/status";
import classes from "./Reward.module.css";

/** The reward of one attempt, by the same rule as that of its trajectory. */
export function AttemptReward({ attempt }: { attempt: Attempt }) {
  const { status, reward } = attempt;
  return <Reward trajectory={{ reward, status: status === "completed" || status === "failed" || status === "cancelled" ? status : "open" }} />;
}

/** A number only where a verifier gave one. An invalid trajectory is hatched: it is not a zero. */
export function Reward({ trajectory }: { trajectory: Pick<Trajectory, "status" | "reward"> }) {
  const outcome = outcomeOf(trajectory);
  if (outcome === "invalid") {
    return (
      <span className={classes.invalid} title="The infrastructure failed: there is no reward, and no mean counts it.">
        invalid
      </span>
    );
  }
  return <>{outcome === "solved" || outcome === "unsolved" ? formatNumber(trajectory.reward) : ABSENT}</>;
}
