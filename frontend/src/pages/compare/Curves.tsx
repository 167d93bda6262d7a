import { MultiSelect, Select } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";

import { metricNamesQuery, seriesQuery } from "../../api/metrics";
import type { MetricName, Series } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Filters } from "../../components/Filters";
import { Loading } from "../../components/Loading";
import { type Curve, MetricChart } from "../../components/MetricChart";
import { Y_SCALE_LABEL, Y_SCALES } from "../../components/metricPlot";
import { X_AXES, X_LABEL } from "../../lib/axis";
import { preparedOf, withoutBand } from "../../lib/curves";
import { differenceTo } from "../../lib/difference";
import { optional } from "../../lib/search";
import { isSmooth, readSmoothing, smoothName } from "../../lib/smoothing";
import { SmoothingChoice } from "../charts/SmoothingChoice";
import classes from "./ComparePage.module.css";
import { type CompareChange, type CompareSearch, readKeys } from "./search";
import { type Compared, nameOf } from "./types";

type Props = { runs: readonly Compared[]; base: Compared | undefined; search: CompareSearch; onChange: (change: CompareChange) => void };

/** What a reader compares first; those that no run has are left out. */
const DEFAULT_KEYS = [
  "reward/mean", "rollout/trajectories_per_h", "train/grad_norm", "train/logprob_gap", "train/ess", "rollout/staleness_mean",
  "rollout/response_tokens", "train/entropy", "rollout/tail_share",
];

/** The chosen curves, all runs on one chart each, with one axis and one smoothing for all. */
export function Curves({ runs, base, search, onChange }: Props) {
  const { x = "step" } = search;
  const lists = useQueries({ queries: runs.map(({ run }) => metricNamesQuery(run.id)) });
  const known = new Map<string, MetricName>(lists.flatMap(({ data }) => data ?? []).map((metric) => [metric.name, metric]));
  const chosen = readKeys(search.keys);
  const keys = (chosen.length > 0 ? chosen : DEFAULT_KEYS).filter((key) => known.has(key));
  const choice = { ...optional("x", search.x), ...optional("smooth", search.smooth) };
  const answers = useQueries({ queries: runs.map(({ run }) => ({ ...seriesQuery(run.id, keys, choice), enabled: keys.length > 0 })) });
  const isLoading = lists.some((list) => list.isPending) || answers.some((one) => one.isPending && one.fetchStatus !== "idle");
  const failed = [...lists, ...answers].find((one) => one.isError);
  const isDifference = search.view === "difference" && base !== undefined;
  return (
    <section aria-label="Curves">
      <Filters>
        <div data-fits className={classes.keys}>
          <MultiSelect
            size="xs"
            aria-label="Curves"
            placeholder={chosen.length === 0 ? "The usual curves; choose others" : "Add"}
            searchable
            clearable
            data={[...known.values()].map(({ name, label }) => ({ value: name, label }))}
            value={chosen.filter((key) => known.has(key))}
            onChange={(next) => onChange({ keys: next.length === 0 ? undefined : next.join(",") })}
          />
        </div>
        <Select
          aria-label="X axis"
          data={X_AXES.filter((axis) => axis !== "wall").map((value) => ({ value, label: X_LABEL[value] }))}
          value={x}
          allowDeselect={false}
          onChange={(value) => onChange({ x: X_AXES.find((axis) => axis === value && axis !== "step") })}
        />
        <SmoothingChoice text={search.smooth} onChange={(smooth) => onChange({ smooth })} />
        <Select
          aria-label="Scale"
          data={Y_SCALES.map((value) => ({ value, label: Y_SCALE_LABEL[value] }))}
          value={search.scale ?? "linear"}
          allowDeselect={false}
          onChange={(value) => onChange({ scale: Y_SCALES.find((scale) => scale === value && scale !== "linear") })}
        />
        <Select
          aria-label="Values"
          data={[
            { value: "values", label: "Values" },
            { value: "difference", label: "Difference to baseline", disabled: base === undefined },
          ]}
          value={isDifference ? "difference" : "values"}
          allowDeselect={false}
          onChange={(value) => onChange({ view: value === "difference" ? "difference" : undefined })}
        />
      </Filters>
      {failed !== undefined && (
        <ErrorState
          error={failed.error}
          onRetry={() => {
            failed.refetch().catch(() => undefined);
          }}
        />
      )}
      {keys.length === 0 && isLoading && <Loading rows={6} />}
      {keys.length === 0 && !isLoading && failed === undefined && <EmptyState title="No curves yet">These runs have not recorded any.</EmptyState>}
      <div className={classes.grid}>
        {keys.map((key) => {
          const metric = known.get(key);
          if (metric === undefined) return null;
          const series = answers.map(({ data }) => data?.find((one) => one.name === key));
          return <Overlay key={key} metric={metric} runs={runs} base={isDifference ? base : undefined} series={series} search={search} isLoading={isLoading} />;
        })}
      </div>
    </section>
  );
}

type OverlayProps = {
  metric: MetricName;
  runs: readonly Compared[];
  base: Compared | undefined;
  series: readonly (Series | undefined)[];
  search: CompareSearch;
  isLoading: boolean;
};

function Overlay({ metric, runs, base, series, search, isLoading }: OverlayProps) {
  const smoothing = readSmoothing(search.smooth);
  const prepared = series.map((one) => (one === undefined ? undefined : withoutBand(preparedOf(one))));
  const held = base === undefined ? undefined : prepared[runs.indexOf(base)];
  const curves = runs.flatMap<Curve>((run, place) => {
    const own = prepared[place];
    if (own === undefined || (base !== undefined && (run === base || held === undefined))) return [];
    return [{ label: nameOf(run), color: run.color, marker: run.marker, series: held === undefined ? own : differenceTo(held, own) }];
  });
  const unit = [metric.unit, smoothName(smoothing)].filter((part) => part !== "").join(" · ");
  return (
    <MetricChart
      title={metric.label}
      note={base === undefined ? unit : `minus ${nameOf(base)} · ${unit}`}
      curves={curves}
      window={isSmooth(smoothing) || base !== undefined ? 2 : 1}
      smoothLabel={smoothName(smoothing)}
      hasDots={false}
      hasGhosts={false}
      references={base === undefined ? [] : [{ label: "no difference", value: 0 }]}
      x={search.x ?? "step"}
      scale={search.scale ?? "linear"}
      sync="compare"
      height={180}
      empty={isLoading ? "Loading" : "No points on this axis"}
    />
  );
}
