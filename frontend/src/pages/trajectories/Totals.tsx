import { Menu } from "@mantine/core";

import type { TrajectoryTotals } from "../../api/types";
import { ABSENT, formatCount, formatNumber } from "../../lib/format";
import classes from "./TrajectoriesTab.module.css";

/** Of the whole filter, not of the rows that are loaded. */
export function Totals({ totals }: { totals: TrajectoryTotals | undefined }) {
  if (totals === undefined) return <span>counting …</span>;
  const mean = totals.reward_mean === null ? ABSENT : formatNumber(totals.reward_mean);
  const figures: [string, string][] = [
    ["trajectories", formatCount(totals.count)],
    ["valid", formatCount(totals.valid)],
    ["solved", formatCount(totals.solved)],
    ["mean reward of the valid", mean],
    ["turns", formatCount(totals.turns)],
    ["tokens out", formatCount(totals.output_tokens)],
    ["tokens in", formatCount(totals.prompt_tokens)],
    ["hours", formatNumber(totals.hours)],
  ];
  return (
    <>
      {figures.map(([label, value]) => (
        <span key={label} className={classes.total}>
          <b>{value}</b> {label}
        </span>
      ))}
    </>
  );
}

const FORMATS = [
  { format: "ndjson", label: "NDJSON, as the API has them" },
  { format: "csv", label: "CSV" },
  { format: "parquet", label: "Parquet" },
] as const;

/** Every row of the filter in its order, streamed by the server. */
export function ExportMenu({ run, query, count }: { run: number; query: Record<string, unknown>; count: number | undefined }) {
  const address = (format: string) => addressOf(`/api/v1/runs/${run}/trajectories/export`, { ...query, format });
  return (
    <Menu position="bottom-end" width={240}>
      <Menu.Target>
        <button type="button" className={classes.clear}>Export {formatCount(count)}</button>
      </Menu.Target>
      <Menu.Dropdown>
        {FORMATS.map(({ format, label }) => (
          <Menu.Item key={format} component="a" href={address(format)} download>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function addressOf(path: string, query: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (typeof value === "string" || typeof value === "number") params.set(key, String(value));
  }
  return `${path}?${params.toString()}`;
}
