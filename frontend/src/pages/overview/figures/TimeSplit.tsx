import { SegmentedControl } from "@mantine/core";

import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { formatCount, formatDuration, formatShare } from "../../../lib/format";
import classes from "./figures.module.css";
import { ShareBar } from "./ShareBar";

type Split = Overview["time"][number];
export type TimePopulation = Split["population"];

const PART: Record<Split["parts"][number]["part"], { label: string; color: string }> = {
  llm: { label: "LLM calls", color: "var(--role-llm)" },
  exec: { label: "shell commands", color: "var(--role-rollout)" },
  verify: { label: "tests", color: "var(--role-sandbox)" },
  setup: { label: "setup", color: "color-mix(in srgb, var(--role-sandbox) 70%, var(--paper))" },
  start: { label: "sandbox start", color: "color-mix(in srgb, var(--role-sandbox) 45%, var(--paper))" },
  teardown: { label: "teardown", color: "color-mix(in srgb, var(--role-sandbox) 25%, var(--paper))" },
  other: { label: "not accounted for", color: "var(--role-other)" },
};
const ORDER = ["llm", "exec", "verify", "setup", "start", "teardown", "other"] as const;
const POPULATION: Record<TimePopulation, { label: string; note: string }> = {
  finished_ok: { label: "Finished ok", note: "completed attempts" },
  finished: { label: "All finished", note: "completed, failed and cancelled attempts" },
  with_in_flight: { label: "+ in flight", note: "all finished attempts and those in flight, at their age now" },
};

type Props = { splits: readonly Split[]; population: TimePopulation; onPopulation: (population: TimePopulation) => void };

/** Where an attempt's time goes, over the population that the reader chose (article, figure 7, top). */
export function TimeSplit({ splits, population, onPopulation }: Props) {
  const split = splits.find((one) => one.population === population);
  if (split === undefined) return null;
  const share = new Map(split.parts.map((one) => [one.part, one]));
  const rows = ORDER.flatMap((part) => share.get(part) ?? []).filter(({ share: size }) => size > 0);
  return (
    <ChartFrame
      title="Where the time goes"
      note={`mean of ${formatCount(split.num_attempts)} ${POPULATION[population].note}, all stages`}
      twin={<Twin splits={splits} />}
    >
      <SegmentedControl
        size="xs" aria-label="Population" value={population}
        data={splits.map((one) => ({ value: one.population, label: POPULATION[one.population].label }))}
        onChange={(value) => onPopulation(value)}
      />
      {split.num_attempts === 0 ? (
        <p className={classes.nothing}>No attempt of this population yet</p>
      ) : (
        <>
          <ShareBar
            label="Time of an attempt"
            parts={rows.map((row) => ({ key: row.part, share: row.share, ...PART[row.part], title: `${PART[row.part].label} ${formatDuration(row.mean_s)}, ${formatShare(row.share)}` }))}
          />
          <table className={classes.table}>
            <thead>
              <tr>
                <th scope="col">part</th>
                <th scope="col">mean</th>
                <th scope="col">share</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.part}>
                  <th scope="row">
                    <span className={classes.swatch} style={{ background: PART[row.part].color }} />
                    {PART[row.part].label}
                  </th>
                  <td>{formatDuration(row.mean_s)}</td>
                  <td>{formatShare(row.share)}</td>
                </tr>
              ))}
              <tr>
                <th scope="row">attempt</th>
                <td>{formatDuration(split.mean_s)}</td>
                <td>{formatShare(1)}</td>
              </tr>
            </tbody>
          </table>
          <p className={classes.sentence}>It waited {formatDuration(split.queue_s)} before it began, which is not part of its time.</p>
        </>
      )}
    </ChartFrame>
  );
}

function Twin({ splits }: { splits: readonly Split[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">population</th>
          <th scope="col">attempts</th>
          {ORDER.map((part) => <th key={part} scope="col">{PART[part].label} s</th>)}
          <th scope="col">attempt s</th>
          <th scope="col">waited before s</th>
        </tr>
      </thead>
      <tbody>
        {splits.map((split) => (
          <tr key={split.population}>
            <td>{POPULATION[split.population].label}</td>
            <td>{formatCount(split.num_attempts)}</td>
            {ORDER.map((part) => <td key={part}>{(split.parts.find((one) => one.part === part)?.mean_s ?? 0).toFixed(2)}</td>)}
            <td>{split.mean_s.toFixed(2)}</td>
            <td>{split.queue_s.toFixed(2)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
