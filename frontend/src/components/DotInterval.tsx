import { formatShare } from "../lib/format";
import { ChartFrame } from "./ChartFrame";
import classes from "./DotInterval.module.css";
import { useWidth } from "./useWidth";

export type Estimate = {
  label: string;
  value: number;
  low: number;
  high: number;
  note: string;
  /** Where the value would be, had what is invalid been solved: drawn as a band. */
  upTo?: number | null;
  isProvisional?: boolean;
  /** To another estimate over the same tasks. */
  difference?: { against: string; value: number; low: number; high: number };
};
export type Reference = { label: string; value: number };

type Props = { title: string; note?: string; estimates: readonly Estimate[]; references?: readonly Reference[]; pending?: readonly string[]; empty: string };

const ROW_PX = 44;
const DIFFERENCE_PX = 16;
const LEFT_PX = 72;
const RIGHT_PX = 16;

/** Shares with their intervals, one row each, and lines to compare them with. */
export function DotInterval({ title, note, estimates, references = [], pending = [], empty }: Props) {
  const [host, width] = useWidth<HTMLDivElement>();
  const top = axisTop(Math.max(0.05, ...estimates.map((one) => Math.max(one.high, one.upTo ?? 0)), ...references.map((one) => one.value)));
  const x = (value: number) => LEFT_PX + (value / top) * (width - LEFT_PX - RIGHT_PX);
  const rows = [...estimates.map((one) => one.label), ...pending];
  const rowPx = ROW_PX + (estimates.some((one) => one.difference !== undefined) ? DIFFERENCE_PX : 0);
  const height = rows.length * rowPx + 22;

  return (
    <ChartFrame
      title={title}
      {...(note === undefined ? {} : { note })}
      legend={references.map((one) => ({ label: `${one.label} ${formatShare(one.value)}`, color: "var(--ink-3)", mark: "dashes" as const }))}
      twin={<Twin estimates={estimates} references={references} />}
    >
      <div ref={host} className={classes.host}>
        {rows.length === 0 ? (
          <div className={classes.nothing}>{empty}</div>
        ) : (
          <svg width={width} height={height} role="img" aria-label={`${title}: ${estimates.map((one) => `${one.label} ${formatShare(one.value)}, ${one.note}`).join("; ")}`}>
            {[0, 0.25, 0.5, 0.75, 1].map((part) => (
              <g key={part}>
                <line x1={x(part * top)} x2={x(part * top)} y1={0} y2={height - 20} className={classes.grid} />
                <text x={x(part * top)} y={height - 5} textAnchor="middle" className={classes.tick}>
                  {Math.round(part * top * 100)} %
                </text>
              </g>
            ))}
            {/* Beside each mark only, so that no line runs through words. */}
            {references.map((one) => (
              <path
                key={one.label}
                d={rows.map((_, row) => `M${x(one.value)} ${row * rowPx + 4}v22`).join("")}
                className={classes.reference}
              >
                <title>{`${one.label} ${formatShare(one.value)}`}</title>
              </path>
            ))}
            {pending.map((label, i) => (
              <text key={label} x={0} y={(estimates.length + i) * rowPx + 19} className={classes.label}>
                {label}
                <tspan x={LEFT_PX} className={classes.tick}>
                  not evaluated yet
                </tspan>
              </text>
            ))}
            {estimates.map((one, row) => {
              const y = row * rowPx + 15;
              const words = `${formatShare(one.value)} [${formatShare(one.low)}, ${formatShare(one.high)}] · ${one.note}`;
              // Below its mark, but never beyond the edge: 11 px figures are about 6 px wide.
              const wordsAt = Math.max(LEFT_PX, Math.min(x(one.low), width - RIGHT_PX - words.length * 6));
              return (
                <g key={one.label} className={classes.estimate}>
                  <title>{`${one.label}: ${words}`}</title>
                  <text x={0} y={y + 4} className={classes.label}>
                    {one.label}
                  </text>
                  {one.upTo != null && one.upTo > one.value && (
                    <rect x={x(one.value)} y={y - 4} width={x(one.upTo) - x(one.value)} height="8" className={classes.band} />
                  )}
                  <path d={`M${x(one.low)} ${y}H${x(one.high)}M${x(one.low)} ${y - 5}v10M${x(one.high)} ${y - 5}v10`} stroke="currentColor" strokeWidth="1.5" />
                  <circle cx={x(one.value)} cy={y} r="4.5" fill={one.isProvisional ? "var(--paper)" : "currentColor"} stroke="currentColor" strokeWidth="1.5" />
                  <text x={wordsAt} y={y + 19} className={classes.tick}>
                    <tspan className={classes.value}>{formatShare(one.value)}</tspan> [{formatShare(one.low)}, {formatShare(one.high)}] · {one.note}
                  </text>
                  {one.difference !== undefined && (
                    <text x={wordsAt} y={y + 34} className={classes.tick}>
                      {differenceWords(one.difference)}
                    </text>
                  )}
                </g>
              );
            })}
          </svg>
        )}
      </div>
    </ChartFrame>
  );
}

/** "+14.7 [+9.1, +20.4] points on sft's tasks": an interval that holds 0 says that the two are not told apart. */
function differenceWords({ against, value, low, high }: NonNullable<Estimate["difference"]>): string {
  const points = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)}`;
  return `${points(value)} [${points(low)}, ${points(high)}] points on ${against}, task by task${low <= 0 && high >= 0 ? ": not told apart" : ""}`;
}

/** 0.2, 0.4, 0.6, 0.8 or 1: quarters of it are round. */
function axisTop(value: number): number {
  return [0.1, 0.2, 0.4, 0.6, 0.8, 1].find((top) => top >= value) ?? 1;
}

function Twin({ estimates, references }: { estimates: readonly Estimate[]; references: readonly Reference[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">stage</th>
          <th scope="col">solve rate</th>
          <th scope="col">low</th>
          <th scope="col">high</th>
          <th scope="col">paired difference</th>
          <th scope="col">population</th>
        </tr>
      </thead>
      <tbody>
        {estimates.map((one) => (
          <tr key={one.label}>
            <td>{one.label}</td>
            <td>{formatShare(one.value)}</td>
            <td>{formatShare(one.low)}</td>
            <td>{formatShare(one.high)}</td>
            <td>{one.difference === undefined ? "–" : differenceWords(one.difference)}</td>
            <td>{one.note}</td>
          </tr>
        ))}
        {references.map((one) => (
          <tr key={one.label}>
            <td>{one.label}</td>
            <td>{formatShare(one.value)}</td>
            <td colSpan={4}>baseline</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
