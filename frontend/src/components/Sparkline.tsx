import { ABSENT, formatNumber } from "../lib/format";
import { sparklinePath } from "../lib/sparkline";
import classes from "./Sparkline.module.css";

type Props = {
  values: readonly (number | null)[];
  label: string;
  /** A custom property of tokens.css, as "--role-rollout". */
  color?: string;
  width?: number;
  height?: number;
};

/** A curve as small as a word, newest right. It says its last value and its range; it has no axis. */
export function Sparkline({ values, label, color = "--role-rollout", width = 88, height = 20 }: Props) {
  const known = values.filter((value) => value !== null && Number.isFinite(value)) as number[];
  const last = known.at(-1);
  if (last === undefined) return <span title={`${label}: no values yet`}>{ABSENT}</span>;
  const range = `${formatNumber(Math.min(...known))} to ${formatNumber(Math.max(...known))}`;
  return (
    <svg
      className={classes.sparkline} role="img" aria-label={`${label}: last ${formatNumber(last)}, ${range}`}
      width={width} height={height} viewBox={`-2 -2 ${width} ${height}`}
    >
      <path
        d={sparklinePath(values, width - 4, height - 4)} fill="none" stroke={`var(${color})`} strokeWidth="1.5" strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
