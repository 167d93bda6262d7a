import { useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { sandboxFleetQuery } from "../../api/fleet";
import type { SandboxFleet as Fleet, SandboxStatus } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { Icon } from "../../components/Icon";
import { Stat, StatRow } from "../../components/Stat";
import { formatCount, formatDuration, formatShare } from "../../lib/format";
import { Carpet } from "./Carpet";
import classes from "./Sandboxes.module.css";

type Start = Fleet["starts"][number];

/** What the boxes are together: by state against the limit, how long a start takes, who held which slot. */
export function SandboxFleet({ run }: { run?: number }) {
  const { data: fleet } = useSuspenseQuery(sandboxFleetQuery(run));
  const { counts, limit, num_alive: alive } = fleet;
  const count = (status: SandboxStatus) => counts[status] ?? 0;
  return (
    <>
      {fleet.num_unsafe > 0 && <UnsafeNotice num={fleet.num_unsafe} {...(run === undefined ? {} : { run })} />}
      <StatRow label="Sandboxes by state">
        <Stat
          label="Alive"
          value={formatCount(alive)}
          unit={`of ${formatCount(limit)}`}
          note={fleet.limit_source === "recipe" ? "cap of the recipe" : "slots of live rollout workers"}
        />
        <Stat label="Starting" value={formatCount(count("requested") + count("starting"))} note="requested or starting" />
        <Stat label="In use" value={formatCount(count("leased"))} note={count("ready") > 0 ? `${formatCount(count("ready"))} ready besides` : "an attempt works in it"} />
        <Stat label="Stopping" value={formatCount(count("stopping"))} note="being torn down" />
        <Stat label="Gone" value={formatCount(count("gone"))} note="ended in order" />
        <Stat label="Failed" value={formatCount(count("failed"))} note="ended by a failure" />
        <Stat label="Orphans" value={formatCount(fleet.num_orphans)} note="alive, no attempt in flight" />
      </StatRow>
      <Carpet {...(run === undefined ? {} : { run })} />
      <section aria-labelledby="start-latency" className={classes.section}>
        <h2 id="start-latency">Start latency by driver</h2>
        <DataTable label="Start latency by driver" columns={STARTS} rows={fleet.starts} rowKey={(start) => `${start.driver} ${start.level}`} empty={<p className={classes.note}>No box has been ready yet.</p>} />
      </section>
    </>
  );
}

export function UnsafeNotice({ num, run }: { num: number; run?: number }) {
  return (
    <p className={classes.unsafe} role="alert">
      <Icon name="alert" />
      <span>
        {formatCount(num)} {num === 1 ? "sandbox" : "sandboxes"}
        {run === undefined ? "" : " of this run"} ran without isolation (level <code>unsafe</code>): the agent could read and change this
        machine. See <Link to="/workers">the workers</Link>; <code>LONGTAIL_UNSAFE_LOCAL_SANDBOX</code> allows it.
      </span>
    </p>
  );
}

const seconds = (id: "p50" | "p90" | "p99"): Column<Start> => ({
  id, header: id, width: 90, align: "right", cell: (start) => formatDuration(start[id]), sortValue: (start) => start[id],
  meaning: "Until the box answers (image and start), over those that did.",
});
const STARTS: Column<Start>[] = [
  { id: "driver", header: "Driver", width: 120, cell: (start) => start.driver },
  { id: "level", header: "Isolation", width: 160, cell: (start) => start.level || "not said" },
  seconds("p50"),
  seconds("p90"),
  seconds("p99"),
  { id: "setup", header: "Set-up", unit: "p50", width: 110, align: "right", meaning: "The task's own preparation, apart from the start.", cell: (start) => formatDuration(start.setup_p50) },
  { id: "measured", header: "Measured", unit: "boxes", width: 140, align: "right", cell: (start) => formatCount(start.num_measured) },
  { id: "boxes", header: "All boxes", width: 100, align: "right", cell: (start) => formatCount(start.num_boxes) },
  {
    id: "failed", header: "Failed", unit: "share", width: 130, align: "right",
    cell: (start) => `${formatCount(start.num_failed)} · ${formatShare(start.num_failed / start.num_boxes)}`,
  },
];
