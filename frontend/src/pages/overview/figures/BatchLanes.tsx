import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { stepDetailQuery } from "../../../api/overview";
import type { Step } from "../../../api/types";
import { Lanes } from "../../../components/Lanes";
import { formatShare } from "../../../lib/format";
import { tailShare } from "../../../lib/quantiles";
import { batchOf, durations } from "../batch";
import { Survival } from "./Survival";

const MOST_GROUPS = 3;

/** The newest consumed batch: its slowest groups as lanes, and how long all of its members ran (article, figure 5). */
export function BatchLanes({ run, steps }: { run: number; steps: readonly Step[] }) {
  const step = steps.findLast(({ status, num_groups }) => num_groups > 0 && status !== "superseded" && status !== "failed");
  const { data } = useQuery({ ...stepDetailQuery(run, step?.id ?? 0), enabled: step !== undefined });
  const navigate = useNavigate();
  const batch = batchOf(data ?? { groups: [], started_at: "", wait_s: 0 }, MOST_GROUPS);
  const times = (data?.groups ?? []).flatMap(({ members }) => durations(members));
  const num = data?.groups.length ?? 0;
  return (
    <>
      <Lanes
        label={step === undefined ? "Groups of a batch" : `Groups of step ${step.index}`}
        note={num > MOST_GROUPS ? `the ${MOST_GROUPS} slowest of ${num}` : "slowest first"}
        lanes={batch.lanes} from={batch.from} to={batch.to}
        marks={batch.consumedAt === null ? [] : [{ at: batch.consumedAt, label: "batch claimed" }]}
        empty={<p>No step has claimed a batch yet</p>}
        onOpen={(trajectory) => {
          navigate({ to: "/trajectories/$trajectory", params: { trajectory: Number(trajectory) } }).catch(() => undefined);
        }}
      />
      <Survival
        title="Still running"
        note={times.length === 0 ? "members of a batch" : `${times.length} members of the batch; ${formatShare(tailShare(times))} of the longest after 90 % had ended`}
        durations={times}
      />
    </>
  );
}
