import type { Stage } from "../../api/types";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed } from "../../components/Time";
import { formatShare } from "../../lib/format";
import { STAGE_STATUS } from "../../lib/status";
import { stageProgress, stageShare } from "../../lib/progress";
import classes from "./StageStepper.module.css";

/** The stages in their order, each with how far it is and what it gave. */
export function StageStepper({ stages }: { stages: Stage[] }) {
  return (
    <ol className={classes.stepper} aria-label="Stages">
      {stages.map((stage) => {
        const share = stageShare(stage);
        return (
          <li key={stage.id} className={classes.stage} data-status={stage.status}>
            <div className={classes.head}>
              <span className={classes.name}>{stage.name}</span>
              <StatusBadge face={STAGE_STATUS[stage.status]} />
            </div>
            <div className={classes.track} aria-hidden="true">
              <div className={classes.done} style={{ width: `${(share ?? 0) * 100}%` }} />
            </div>
            <div className={classes.foot}>
              <span>
                {stage.status !== "pending" && stage.status !== "skipped" && (
                  <>
                    {stageProgress(stage)} {UNIT[stage.kind]}
                  </>
                )}
              </span>
              <span>
                {stage.result === null ? (
                  stage.started_at !== null && <Elapsed from={stage.started_at} to={stage.finished_at} />
                ) : (
                  <>pass@1 {formatShare(stage.result.pass_at_1)}</>
                )}
              </span>
            </div>
            {stage.failure_message !== "" && <p className={classes.failure}>{stage.failure_message}</p>}
          </li>
        );
      })}
    </ol>
  );
}

const UNIT: Record<Stage["kind"], string> = { eval: "trajectories", sft: "steps", rl: "steps" };
