import type { Turn } from "../api/types";
import { ABSENT } from "./format";

/** A command that failed or hit its own cap. That is an observation of the policy, not an infrastructure failure. */
export function isErroneous(turn: Pick<Turn, "exit_code" | "is_timed_out">): boolean {
  return turn.is_timed_out || (turn.exit_code !== null && turn.exit_code !== 0);
}

/** The weights that wrote it: "v3", or "v3 – v5" when they changed on the way. */
export function versions({ version_min, version_max }: Pick<Turn, "version_min" | "version_max">): string {
  if (version_min === null || version_max === null) return ABSENT;
  return version_min === version_max ? `v${version_min}` : `v${version_min} – v${version_max}`;
}
