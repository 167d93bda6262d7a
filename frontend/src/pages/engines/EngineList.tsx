import { useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { enginesQuery } from "../../api/fleet";
import type { Engine } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Icon } from "../../components/Icon";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { Ago, Elapsed } from "../../components/Time";
import { ABSENT, formatCount, formatNumber, formatShare } from "../../lib/format";
import { ENGINE_STATUS } from "../../lib/status";
import { useFleet } from "../../live/useFleet";
import classes from "./EngineList.module.css";
import { liveEngines, skewSentence, spread, type Spread } from "./fleet";

/** Inference servers of a run or of all runs: the fleet as mean and largest, then each. */
export function EngineList({ run }: { run?: number }) {
  const filter = run === undefined ? {} : { run };
  const { data: engines } = useSuspenseQuery(enginesQuery(filter));
  useFleet();
  const skew = skewSentence(engines);
  return (
    <div className={classes.page}>
      {engines.length > 0 && <Fleet engines={engines} />}
      {skew !== null && (
        <p className={classes.skew}>
          <Icon name="arrow" /> Version skew, {skew}.
        </p>
      )}
      <div className={classes.bar}>
        <CopyAs path="/api/v1/engines" query={filter} />
      </div>
      <DataTable
        label="Engines"
        columns={run === undefined ? [...COLUMNS.slice(0, 2), RUN, ...COLUMNS.slice(2)] : COLUMNS}
        rows={engines}
        rowKey={(engine) => engine.id}
        empty={
          <EmptyState title="No engines" command="longtail runs launch recipes/miniature.yaml">
            A run starts its own when it begins, on the live engine workers.
          </EmptyState>
        }
      />
    </div>
  );
}

function Fleet({ engines }: { engines: readonly Engine[] }) {
  const live = liveEngines(engines);
  const known = live.length > 0 ? live : engines;
  const serving = live.filter((engine) => engine.status === "serving").length;
  const lost = engines.filter((engine) => engine.status === "lost").length;
  const figure = (label: string, found: Spread | null, format: (value: number) => string, unit?: string) => (
    <Stat
      label={label}
      value={found === null ? ABSENT : format(found.mean)}
      {...(unit === undefined ? {} : { unit })}
      note={found === null ? "no engine says it" : `mean of ${found.num}${live.length > 0 ? "" : " as they ended"}; most ${format(found.max)} on engine ${found.at.index}`}
    />
  );
  const throughput = live.reduce((sum, engine) => sum + (engine.load.gen_throughput ?? 0), 0);
  return (
    <StatRow label="Engines together">
      <Stat label="Serving" value={formatCount(serving)} unit={`of ${formatCount(live.length)} live`} note={lost > 0 ? `${formatCount(lost)} lost so far` : "none lost"} />
      {figure("Running", spread(known, (engine) => engine.load.running), formatNumber, "requests")}
      {figure("Queued", spread(known, (engine) => engine.load.queued), formatNumber, "requests")}
      {figure("KV cache", spread(known, (engine) => engine.load.token_usage), formatShare)}
      <Stat label="Generated" value={live.length === 0 ? ABSENT : formatCount(throughput)} unit="tokens/s" note="sum of live engines" />
      {figure("Longest sequence", spread(known, (engine) => engine.load.longest_tokens), formatCount, "tokens")}
    </StatRow>
  );
}

const RUN: Column<Engine> = {
  id: "run", header: "Run", width: 140, sortValue: (engine) => engine.run,
  cell: (engine) => (
    <Link to="/runs/$run/engines" params={{ run: engine.run }}>
      {engine.run} · {engine.run_name}
    </Link>
  ),
};

const load = (id: "running" | "queued" | "longest_tokens", header: string, width: number, unit?: string): Column<Engine> => ({
  id, header, width, align: "right", ...(unit === undefined ? {} : { unit }), cell: (engine) => formatCount(engine.load[id]),
  sortValue: (engine) => engine.load[id] ?? null,
});

const COLUMNS: Column<Engine>[] = [
  { id: "index", header: "Engine", width: 76, cell: (engine) => engine.index, sortValue: (engine) => engine.index },
  { id: "status", header: "State", width: 112, cell: (engine) => <StatusBadge face={ENGINE_STATUS[engine.status]} />, sortValue: (engine) => engine.status },
  {
    id: "version", header: "Weights", unit: "of newest", width: 150, align: "right", sortValue: (engine) => engine.version_skew,
    meaning: "The version that it confirmed, of the newest published one; sorted by how far it is behind.",
    cell: ({ weight_version: held, target_version: target, version_skew: skew }) =>
      held === null ? ABSENT : `v${held} / v${target}${(skew ?? 0) > 0 ? ` (−${skew})` : ""}`,
  },
  { id: "in_flight", header: "In flight", width: 84, align: "right", meaning: "Attempts that were given this engine.", cell: (engine) => formatCount(engine.num_in_flight), sortValue: (engine) => engine.num_in_flight },
  load("running", "Running", 84),
  load("queued", "Queued", 80),
  {
    id: "kv", header: "KV cache", unit: "used", width: 120, align: "right", sortValue: (engine) => engine.load.token_usage ?? null,
    cell: ({ load: { token_usage: share, used_tokens: used, max_tokens: most } }) => (
      <span className={classes.meter} title={used === undefined || most === undefined ? undefined : `${formatCount(used)} of ${formatCount(most)} tokens`}>
        {share !== undefined && <span className={classes.fill} data-full={share > 0.9 || undefined} style={{ width: `${Math.min(1, share) * 100}%` }} />}
        {formatShare(share)}
      </span>
    ),
  },
  { id: "rate", header: "Generated", unit: "tokens/s", width: 140, align: "right", cell: (engine) => formatCount(engine.load.gen_throughput), sortValue: (engine) => engine.load.gen_throughput ?? null },
  load("longest_tokens", "Longest", 120, "tokens"),
  { id: "restarts", header: "Restarts", width: 84, align: "right", meaning: "Engines of this index before it, in this run.", cell: (engine) => formatCount(engine.num_restarts), sortValue: (engine) => engine.num_restarts },
  {
    id: "heartbeat", header: "Heartbeat", width: 110, align: "right", sortValue: (engine) => engine.heartbeat_at,
    cell: (engine) => (engine.finished_at === null ? <Ago at={engine.heartbeat_at} /> : ABSENT),
  },
  { id: "hits", header: "Cache hits", width: 96, align: "right", cell: (engine) => formatShare(engine.load.cache_hit_rate), sortValue: (engine) => engine.load.cache_hit_rate ?? null },
  { id: "up", header: "Up", width: 90, align: "right", cell: (engine) => <Elapsed from={engine.started_at} to={engine.finished_at} /> },
  { id: "worker", header: "Worker", width: 110, cell: (engine) => engine.worker || ABSENT },
  { id: "url", header: "Address", width: 180, isExtra: true, cell: (engine) => <code>{engine.url || ABSENT}</code> },
  { id: "failure", header: "Last failure", width: 200, cell: (engine) => <span title={engine.failure_message}>{engine.failure_message || ABSENT}</span> },
];
