import { useSuspenseQuery } from "@tanstack/react-query";

import { limitsQuery } from "../../api/fleet";
import type { Limit } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { Ago } from "../../components/Time";
import { ABSENT, formatCount, formatNumber, formatShare } from "../../lib/format";
import { useFleet } from "../../live/useFleet";
import classes from "./LimitsPage.module.css";
import { nearest, usageOf } from "./usage";

/** Which cap breaks first: configured against measured, layer by layer. */
export function LimitsPage() {
  const { data: limits } = useSuspenseQuery(limitsQuery());
  useFleet();
  const near = nearest(limits);
  return (
    <Page
      title="Limits"
      lead={
        near === null
          ? "Caps of every layer, as they are configured and as they were measured."
          : `Nearest to its cap: ${near.name} (${near.layer}${near.scope === "" ? "" : `, ${near.scope}`}) at ${formatShare(usageOf(near).share)}.`
      }
      actions={<CopyAs path="/api/v1/limits" />}
    >
      <DataTable
        label="Limits"
        columns={COLUMNS}
        rows={limits}
        rowKey={(limit) => limit.id}
        empty={
          <EmptyState title="No limits known" command="longtail runs launch recipes/miniature.yaml">
            They are measured every few seconds while a run is active.
          </EmptyState>
        }
      />
    </Page>
  );
}

/** The present use as a bar, the peak as a mark. */
function Use({ limit }: { limit: Limit }) {
  const { share, peak, state } = usageOf(limit);
  if (state === "unmeasured") return <span className={classes.never}>configured but never measured</span>;
  if (state === "uncapped") return <span className={classes.never}>measured, no cap configured</span>;
  return (
    <span className={classes.use}>
      <span className={classes.bar} data-state={state} aria-hidden="true">
        <span style={{ width: `${Math.min(1, share ?? 0) * 100}%` }} />
        {peak !== null && <i style={{ left: `${Math.min(1, peak) * 100}%` }} />}
      </span>
      <span className={classes.share}>{formatShare(share)}</span>
    </span>
  );
}

/** Whole numbers in full: a cap of 1,500,000 is not 1.5e+6. */
const figure = (value: number | null) => (value !== null && Number.isInteger(value) ? formatCount(value) : formatNumber(value));

const COLUMNS: Column<Limit>[] = [
  { id: "layer", header: "Layer", width: 96, cell: (limit) => limit.layer, sortValue: (limit) => limit.layer },
  { id: "name", header: "Limit", width: 230, cell: (limit) => limit.name, sortValue: (limit) => limit.name },
  { id: "scope", header: "Of", width: 84, cell: (limit) => limit.scope || "all", sortValue: (limit) => limit.scope },
  { id: "use", header: "Use", width: 220, meaning: "Measured of configured; the mark is the highest use so far.", cell: (limit) => <Use limit={limit} />, sortValue: (limit) => usageOf(limit).share },
  { id: "measured", header: "Measured", width: 100, align: "right", cell: (limit) => figure(limit.measured), sortValue: (limit) => limit.measured },
  { id: "peak", header: "Peak", width: 90, align: "right", cell: (limit) => figure(limit.peak), sortValue: (limit) => limit.peak },
  { id: "configured", header: "Configured", width: 110, align: "right", cell: (limit) => figure(limit.configured), sortValue: (limit) => limit.configured },
  { id: "unit", header: "Unit", width: 100, cell: (limit) => limit.unit || ABSENT },
  {
    id: "waits", header: "Who waits", width: 150, sortValue: (limit) => limit.num_waiting,
    cell: (limit) => (limit.num_waiting === null ? ABSENT : limit.num_waiting === 0 ? "nobody" : `${formatCount(limit.num_waiting)} ${limit.waiting}`),
  },
  { id: "at", header: "When", width: 110, align: "right", meaning: "When it was measured last.", cell: (limit) => <Ago at={limit.measured_at} />, sortValue: (limit) => limit.measured_at },
];
