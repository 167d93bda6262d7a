import type { Skeleton } from "../../api/inspector";
import type { Attempt, TrajectoryDetail } from "../../api/types";
import type { OutlineTurn } from "../../lib/outline";

/** What every tab of the inspector is given; what more it needs it asks for itself. */
export type TabProps = {
  trajectory: TrajectoryDetail;
  attempt: Attempt;
  /** The number in the address; without one it is the newest. */
  chosen: number | undefined;
  skeleton: Skeleton;
  turns: readonly OutlineTurn[];
  selected: number | undefined;
  onSelect: (turn: number) => void;
};

/** It goes on: more turns may come. */
export function isLive({ status }: Attempt): boolean {
  return status === "queued" || status === "starting" || status === "running" || status === "grading";
}
