/** What a run is at, out of its stages. Pure, so that lists and pages say the same. */
import type { Run, Stage } from "../../api/types";
import { formatCount } from "../../lib/format";

export function currentStage(run: Pick<Run, "stages">): Stage | undefined {
  return (
    run.stages.find((stage) => stage.status === "running") ??
    run.stages.find((stage) => stage.status === "failed") ??
    run.stages.find((stage) => stage.status === "pending") ??
    run.stages.at(-1)
  );
}

/** The newest evaluation that has a result. */
export function latestResult(run: Pick<Run, "stages">): Stage | undefined {
  return run.stages.findLast((stage) => stage.result !== null);
}

export function stageProgress(stage: Stage): string {
  if (stage.num_total === null) return formatCount(stage.num_done);
  return `${formatCount(stage.num_done)} / ${formatCount(stage.num_total)}`;
}

/** 0 … 1, or null where the end is not known. */
export function stageShare(stage: Stage): number | null {
  if (stage.status === "succeeded") return 1;
  if (stage.num_total === null || stage.num_total === 0) return null;
  return Math.min(1, stage.num_done / stage.num_total);
}
