import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";

import { trajectoryQuery } from "../api/trajectories";
import { lastRun } from "../lib/preferences";

/** The run of the page, or of its trajectory; elsewhere the one that was looked at last. */
export function useActiveRun(): { run: number | undefined; isHere: boolean } {
  const { run, trajectory } = useParams({ strict: false });
  const detail = useQuery({ ...trajectoryQuery(trajectory ?? 0), enabled: trajectory !== undefined });
  const remembered = lastRun.use();
  const here = run ?? detail.data?.run;
  useEffect(() => {
    if (here !== undefined) lastRun.set(String(here));
  }, [here]);
  return { run: here ?? (remembered === undefined ? undefined : Number(remembered)), isHere: run !== undefined };
}
