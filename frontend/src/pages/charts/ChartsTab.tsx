import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { metricNamesQuery } from "../../api/metrics";
import type { MetricName } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { EmptyState } from "../../components/EmptyState";
import { formatCount } from "../../lib/format";
import { optional } from "../../lib/search";
import { ChartControls } from "./ChartControls";
import classes from "./ChartsTab.module.css";
import { MetricPanel } from "./MetricPanel";
import type { ChartsSearch } from "./search";

const route = getRouteApi("/shell/runs/$run/charts");

/** Panels that are near each other are asked for together. */
const TOGETHER = 6;
const BUCKETS = 400;
const BUCKETS_OF_ONE = 1200;

/** Every curve of the run. What is shown is in the address, with the words of the API. */
export function ChartsTab() {
  const { run } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: metrics } = useSuspenseQuery(metricNamesQuery(run));
  const neighbours = useMemo(() => neighboursOf(metrics), [metrics]);
  const set = (change: Partial<Record<keyof ChartsSearch, ChartsSearch[keyof ChartsSearch]>>, replace = false) => {
    navigate({ search: (old) => ({ ...old, ...change }) as ChartsSearch, replace }).catch(() => undefined);
  };
  const { q, x = "step", smooth, from, to, scale = "linear", clip, ghosts, show } = search;
  const choice = { ...optional("x", search.x), ...optional("smooth", smooth), ...optional("from", from), ...optional("to", to) };

  if (metrics.length === 0) {
    return (
      <EmptyState title="No curves yet" command={`longtail runs follow ${run}`}>
        The first ones come with the first optimizer step.
      </EmptyState>
    );
  }
  const large = metrics.find((metric) => metric.name === show);
  const found = large === undefined ? matching(metrics, q) : [large];
  const panel = (metric: MetricName) => (
    <MetricPanel
      key={metric.name}
      run={run}
      metric={metric}
      together={large === undefined ? (neighbours.get(metric.name) ?? [metric.name]) : [metric.name]}
      choice={{ ...choice, buckets: large === undefined ? BUCKETS : BUCKETS_OF_ONE }}
      x={x}
      scale={scale}
      isClipped={clip !== undefined}
      hasGhosts={ghosts !== "off"}
      isLarge={large !== undefined}
      onZoom={(range) => set({ from: range === null ? undefined : tidy(range[0]), to: range === null ? undefined : tidy(range[1]) })}
    />
  );
  return (
    <>
      <ChartControls search={search} onChange={set}>
        <CopyAs path={`/api/v1/runs/${run}/series`} query={{ name: found.map((metric) => metric.name), ...choice }} />
      </ChartControls>
      {show !== undefined && large === undefined && <p className={classes.notice}>This run has no curve called {show}.</p>}
      {large !== undefined ? (
        panel(large)
      ) : found.length === 0 ? (
        <EmptyState title="No curve matches">
          <Link from="/runs/$run/charts" to="/runs/$run/charts" search={(old) => ({ ...old, q: undefined })}>
            Show all {formatCount(metrics.length)}
          </Link>
        </EmptyState>
      ) : (
        groupsOf(found).map(([group, members]) => (
          <details key={group} open className={classes.group}>
            <summary>
              <h2>{group}</h2> <span className={classes.count}>{formatCount(members.length)}</span>
            </summary>
            <div className={classes.grid}>{members.map(panel)}</div>
          </details>
        ))
      )}
    </>
  );
}

/** By name, the names that are asked for together; they do not change with the search, so that answers are used again. */
function neighboursOf(metrics: readonly MetricName[]): Map<string, readonly string[]> {
  const names = metrics.map((metric) => metric.name);
  return new Map(names.map((name, index) => {
    const first = index - (index % TOGETHER);
    return [name, names.slice(first, first + TOGETHER)];
  }));
}

/** Every word must be somewhere in the name, the label, the group or the definition. */
export function matching(metrics: readonly MetricName[], q: string | undefined): MetricName[] {
  const wanted = (q ?? "").toLowerCase().split(/\s+/).filter((word) => word !== "");
  return metrics.filter(({ name, label, group, definition }) => {
    const text = `${name} ${label} ${group} ${definition}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

function groupsOf(metrics: readonly MetricName[]): [string, MetricName[]][] {
  const groups = new Map<string, MetricName[]>();
  for (const metric of metrics) groups.set(metric.group, [...(groups.get(metric.group) ?? []), metric]);
  return [...groups];
}

/** Digits that no reader sees are not worth a long address. */
function tidy(value: number): number {
  return Number(value.toPrecision(value > 1e9 ? 12 : 6));
}
