/** What a run is at, out of its stages. Pure, so that lists and pages say the same. */
import type { Stage, StageBrief } from "../api/types";
import { formatCount } from "./format";

export function currentStage<S extends Pick<StageBrief, "status">>(stages: readonly S[]): S | undefined {
  return (
    stages.find((stage) => stage.status === "running") ??
    stages.find((stage) => stage.status === "failed") ??
    stages.find((stage) => stage.status === "pending") ??
    stages.at(-1)
  );
}

/** The newest evaluation that has a result. */
export function latestResult(stages: readonly StageBrief[]): StageBrief | undefined {
  return stages.findLast((stage) => stage.pass_at_1 !== null);
}

type Progress = Pick<Stage, "num_done" | "num_total" | "status">;

export function stageProgress({ num_done, num_total }: Progress): string {
  return num_total === null ? formatCount(num_done) : `${formatCount(num_done)} / ${formatCount(num_total)}`;
}

/** 0 … 1, or null where the end is not known. */
export function stageShare({ status, num_done, num_total }: Progress): number | null {
  if (status === "succeeded") return 1;
  return num_total === null || num_total === 0 ? null : Math.min(1, num_done / num_total);
}
