import { ChartFrame } from "../../../components/ChartFrame";
import { useWidth } from "../../../components/useWidth";
import { formatDuration } from "../../../lib/format";
import { timeTicks } from "../../../lib/lanes";
import { quantile } from "../../../lib/quantiles";
import classes from "./figures.module.css";

const HEIGHT = 192;
const LEFT_PX = 40;
const SHARES = [0.5, 0.9, 0.99] as const;

/** The share of trajectories that still ran after so many seconds of their own time. */
export function Survival({ title, note, durations }: { title: string; note: string; durations: readonly number[] }) {
  const [host, width] = useWidth<HTMLDivElement>();
  const sorted = [...durations].sort((a, b) => a - b);
  const last = sorted.at(-1) ?? 1;
  const x = (seconds: number) => LEFT_PX + (seconds / last) * (width - LEFT_PX - 12);
  const y = (share: number) => 6 + (1 - share) * (HEIGHT - 30);
  const curve = sorted.map((seconds, index) => `H${x(seconds).toFixed(1)}V${y(1 - (index + 1) / sorted.length).toFixed(1)}`).join("");
  const marks = SHARES.map((share) => ({ share, at: quantile(sorted, share) ?? 0 }));
  return (
    <ChartFrame
      title={title} note={note}
      legend={sorted.length === 0 ? [] : [...marks.map(({ share, at }) => ({ label: `p${share * 100} ${formatDuration(at)}`, color: "var(--ink-3)", mark: "dashes" as const }))]}
      twin={
        <table>
          <thead><tr><th scope="col">ended</th><th scope="col">after s</th></tr></thead>
          <tbody>
            {[0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1].map((share) => (
              <tr key={share}><td>{share * 100} %</td><td>{(quantile(sorted, share) ?? 0).toFixed(2)}</td></tr>
            ))}
          </tbody>
        </table>
      }
    >
      <div ref={host} className={classes.host}>
        {sorted.length === 0 ? <p className={classes.nothing}>No batch yet</p> : (
          <svg width={width} height={HEIGHT} role="img" aria-label={`${title}: ${marks.map(({ share, at }) => `${share * 100} % ended after ${formatDuration(at)}`).join(", ")}`}>
            {[0, 0.5, 1].map((share) => (
              <g key={share}>
                <line x1={LEFT_PX} x2={width} y1={y(share)} y2={y(share)} className={classes.grid} />
                <text x={LEFT_PX - 6} y={y(share) + 4} textAnchor="end" className={classes.tick}>{share * 100} %</text>
              </g>
            ))}
            {timeTicks(0, last, (width - LEFT_PX) / 96).map((tick) => (
              <text key={tick} x={x(tick)} y={HEIGHT - 6} textAnchor={tick === 0 ? "start" : tick > 0.95 * last ? "end" : "middle"} className={classes.tick}>
                {tick === 0 ? "0" : formatDuration(tick).replace(/ 0 [sm]$/, "")}
              </text>
            ))}
            {marks.map(({ share, at }) => (
              <line key={share} x1={x(at)} x2={x(at)} y1={y(1)} y2={y(0)} stroke="var(--ink-3)" strokeDasharray="4 3">
                <title>{`p${share * 100} ${formatDuration(at)}`}</title>
              </line>
            ))}
            <path d={`M${x(0)} ${y(1)}${curve}`} fill="none" stroke="var(--role-rollout)" strokeWidth="2" />
          </svg>
        )}
      </div>
    </ChartFrame>
  );
}
