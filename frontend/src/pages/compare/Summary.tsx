import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { seriesQuery } from "../../api/metrics";
import type { Series } from "../../api/types";
import { StatusBadge } from "../../components/StatusBadge";
import { formatCount, formatNumber, formatShare } from "../../lib/format";
import { optional } from "../../lib/search";
import { RUN_STATUS } from "../../lib/status";
import classes from "./ComparePage.module.css";
import type { CompareChange, CompareSearch } from "./search";
import { type Compared, nameOf } from "./types";

type Props = { runs: readonly Compared[]; base: Compared | undefined; search: CompareSearch; onChange: (change: CompareChange) => void };

const LAST = ["reward/mean", "rollout/staleness_mean"];

type Column = { header: string; unit?: string; value: (one: Compared, last: readonly Series[]) => number | null; format: (value: number | null) => string };

/** A row a run, which is the legend of the curves, too; under each figure its difference to the baseline. */
export function Summary({ runs, base, search, onChange }: Props) {
  // One bucket: the last values. reward (10) is the ten-step mean whatever the curves below are smoothed with.
  const ends = useQueries({ queries: runs.map(({ run }) => seriesQuery(run.id, LAST, { buckets: 1, smooth: "mean:10" })) });
  const lastOf = (one: Compared) => ends[runs.indexOf(one)]?.data ?? [];
  const evals = [...new Set(runs.flatMap(({ run }) => run.stages.filter((stage) => stage.kind === "eval").map((stage) => stage.name)))];
  const columns: Column[] = [
    { header: "Steps", value: ({ run }) => run.counts.steps_done, format: formatCount },
    { header: "Reward", unit: "10-step mean, valid", value: (_, last) => smoothOf(last, "reward/mean"), format: formatNumber },
    ...evals.map((name) => ({
      header: name,
      unit: "pass@1",
      value: ({ run }: Compared) => run.stages.find((stage) => stage.name === name)?.result?.pass_at_1 ?? null,
      format: formatShare,
    })),
    { header: "Completed", unit: "trajectories/h", value: ({ run }) => run.counts.produced_per_h, format: formatCount },
    { header: "Invalid", unit: "of ended trajectories", value: ({ run: { counts } }) => share(counts.failed, counts.completed + counts.failed), format: formatShare },
    { header: "Staleness", unit: "versions, last step", value: (_, last) => lastValue(last, "rollout/staleness_mean"), format: formatNumber },
  ];
  return (
    <div className={classes.scroller}>
      <table className={classes.table} aria-label="Figures">
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">State</th>
            {columns.map(({ header, unit }) => (
              <th key={header} scope="col" data-align="right">
                {header}
                {unit !== undefined && <span className={classes.unit}>{unit}</span>}
              </th>
            ))}
            <th scope="col">Baseline</th>
            <th scope="col">
              <span className={classes.hidden}>Leave out</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((one) => (
            <tr key={one.run.id} data-base={one === base}>
              <th scope="row">
                <Shape {...one} />
                <Link to="/runs/$run/overview" params={{ run: one.run.id }}>
                  {nameOf(one)}
                </Link>
                {one.run.is_demo && <span className={classes.demo}>demo data</span>}
              </th>
              <td>
                <StatusBadge face={RUN_STATUS[one.run.status]} />
              </td>
              {columns.map(({ header, value, format }) => (
                <td key={header} data-align="right">
                  {format(value(one, lastOf(one)))}
                  {base !== undefined && base !== one && <Delta of={value(one, lastOf(one))} to={value(base, lastOf(base))} format={format} />}
                </td>
              ))}
              <td>
                <input
                  type="radio"
                  name="base"
                  aria-label={`${nameOf(one)} as baseline`}
                  checked={one === base}
                  onChange={() => onChange({ base: one.run.id })}
                />
              </td>
              <td>
                <button type="button" aria-label={`Leave out ${nameOf(one)}`} onClick={() => onChange(without(one, runs, search))}>
                  ×
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className={classes.foot}>
        pass@1 counts an invalid attempt as unsolved. Rates are of the last ten minutes, or of the whole of a run that has ended.{" "}
        {base === undefined ? "With a baseline, each figure has its difference to it." : ""}
      </p>
      {base !== undefined && (
        <button type="button" className={classes.plain} onClick={() => onChange({ base: undefined, view: undefined })}>
          No baseline
        </button>
      )}
    </div>
  );
}

export function Shape({ color, marker }: Pick<Compared, "color" | "marker">) {
  return (
    <svg className={classes.shape} width="22" height="12" viewBox="-11 -6 22 12" aria-hidden="true">
      <path d="M-11 0h22" stroke={`var(${color})`} strokeWidth="2" />
      <path d={marker} fill={`var(${color})`} />
    </svg>
  );
}

function Delta({ of, to, format }: { of: number | null; to: number | null; format: (value: number | null) => string }): ReactNode {
  if (of === null || to === null) return null;
  const text = of === to ? "equal" : `${of > to ? "+" : "−"}${format(Math.abs(of - to))}`;
  return <span className={classes.delta}>{text}</span>;
}

function without(one: Compared, runs: readonly Compared[], search: CompareSearch): CompareChange {
  const ids = runs.filter((other) => other !== one).map(({ run }) => run.id).join(",");
  return { ids, ...(search.base === one.run.id ? { base: undefined, view: undefined } : optional("base", search.base)) };
}

function smoothOf(last: readonly Series[], name: string): number | null {
  return last.find((series) => series.name === name)?.smooth.at(-1) ?? null;
}

function lastValue(last: readonly Series[], name: string): number | null {
  return last.find((series) => series.name === name)?.buckets.last.at(-1) ?? null;
}

function share(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}
