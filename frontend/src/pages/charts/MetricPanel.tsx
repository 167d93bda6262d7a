import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useRef } from "react";

import { type SeriesChoice, seriesFile, seriesQuery } from "../../api/metrics";
import type { MetricName, Series } from "../../api/types";
import { type Curve, MetricChart } from "../../components/MetricChart";
import { type YScale } from "../../components/metricPlot";
import { titleOf } from "../../components/ErrorState";
import { useInView } from "../../components/useInView";
import type { XAxis } from "../../lib/axis";
import { colorOf, preparedOf } from "../../lib/curves";
import { formatNumber } from "../../lib/format";
import { savePng } from "../../lib/png";
import { readValue } from "../../lib/series";
import { isSmooth, readSmoothing, smoothName } from "../../lib/smoothing";
import classes from "./ChartsTab.module.css";

type Props = {
  run: number;
  metric: MetricName;
  /** The curves that are asked for together with this one, so that a screen of panels is a few requests. */
  together: readonly string[];
  choice: SeriesChoice;
  x: XAxis;
  scale: YScale;
  isClipped: boolean;
  hasGhosts: boolean;
  isLarge: boolean;
  onZoom: (range: [number, number] | null) => void;
};

const POPULATION: Record<MetricName["population"], string> = {
  valid: "over valid trajectories",
  all: "over all trajectories, failed ones too",
  trained: "over trained trajectories",
  none: "",
};

/** One curve of the run with its unit, population and definition. Nothing is fetched or drawn outside the window. */
export function MetricPanel({ run, metric, together, choice, x, scale, isClipped, hasGhosts, isLarge, onZoom }: Props) {
  const [frame, isInView] = useInView<HTMLDivElement>();
  const panel = useRef<HTMLDivElement>(null);
  const query = useQuery({ ...seriesQuery(run, together, choice), enabled: isInView });
  const series = query.data?.find((one) => one.name === metric.name);
  const curves = useMemo<Curve[]>(
    () => (series === undefined ? [] : [{ label: metric.label, color: colorOf(metric.name), series: preparedOf(series) }]),
    [series, metric.label, metric.name],
  );
  const smoothing = readSmoothing(choice.smooth);
  const population = POPULATION[metric.population];
  const { from, to } = choice;
  const height = isLarge ? 420 : 168;
  return (
    <div ref={frame} className={classes.panel} data-large={isLarge}>
      {isInView && (
        <div ref={panel}>
          <MetricChart
            title={metric.label}
            value={<Last metric={metric} />}
            note={population}
            {...(metric.definition === "" ? {} : { definition: metric.definition })}
            curves={curves}
            window={isSmooth(smoothing) ? 2 : 1}
            smoothLabel={smoothName(smoothing)}
            thresholds={metric.thresholds}
            x={x}
            scale={scale}
            clip={isClipped && series?.central != null ? [series.central.low, series.central.high] : false}
            hasGhosts={hasGhosts}
            sync="charts"
            height={height}
            onZoom={onZoom}
            {...(from === undefined || to === undefined ? {} : { domain: [from, to] })}
            empty={query.isError ? <Failed error={query.error} onRetry={() => query.refetch().catch(() => undefined)} /> : series === undefined ? "Loading" : emptyText(series, from !== undefined || to !== undefined)}
            actions={
              <>
                <button
                  type="button"
                  aria-label={`PNG of ${metric.label}`}
                  disabled={series === undefined || series.buckets.x.length === 0}
                  onClick={() => {
                    const canvas = panel.current?.querySelector("canvas");
                    if (canvas != null) savePng(canvas, metric.label, [metric.unit, population, metric.definition].filter((part) => part !== "").join(" · ")).catch(() => undefined);
                  }}
                >
                  PNG
                </button>
                <a
                  href={seriesFile(run, metric.name, choice)}
                  download
                  aria-label={`CSV of ${metric.label}`}
                  title="Every point of the range at full resolution, superseded ones too"
                >
                  CSV
                </a>
                <Link
                  from="/runs/$run/charts"
                  to="/runs/$run/charts"
                  search={(old) => ({ ...old, show: isLarge ? undefined : metric.name })}
                  aria-label={isLarge ? "Close, back to all curves" : `Expand ${metric.label}`}
                >
                  {isLarge ? "Close" : "Expand"}
                </Link>
              </>
            }
          />
        </div>
      )}
    </div>
  );
}

function Failed({ error, onRetry }: { error: unknown; onRetry: () => unknown }) {
  return (
    <p role="alert">
      {titleOf(error)}{" "}
      <button type="button" className={classes.retry} onClick={onRetry}>
        Try again
      </button>
    </p>
  );
}

function Last({ metric }: { metric: MetricName }) {
  return (
    <span title={`Last value, at step ${metric.last_step}; ${metric.num_points} points stored`}>
      {formatNumber(readValue(metric.last))} {metric.unit !== "" && <span className={classes.unit}>{metric.unit}</span>}
    </span>
  );
}

function emptyText(series: Series, isRange: boolean): string {
  if (series.num_unplaced > 0) return "No point of this curve has a place on this axis";
  return isRange ? "No points in this range" : "No points yet";
}
