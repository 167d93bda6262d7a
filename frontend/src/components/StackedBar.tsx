import { formatDuration, formatNumber, formatTick } from "../lib/format";
import { mean, quantile } from "../lib/quantiles";
import { ChartFrame } from "./ChartFrame";
import classes from "./StackedBar.module.css";
import { useWidth } from "./useWidth";

export type Part = { key: string; label: string; color: string };
export type Bar = { key: number; label: string; values: Record<string, number>; isGhost?: boolean };

type Props = {
  title: string;
  note?: string;
  /** From the bottom up. */
  parts: readonly Part[];
  /** Not part of the sum: drawn in a lane of its own, on a scale of its own. */
  lane?: Part;
  bars: readonly Bar[];
  height?: number;
  /** What a click on a bar opens; the table twin has the same as links. */
  onOpen?: (bar: Bar) => void;
};

const AXIS_PX = 40;
const LANE_PX = 24;
/** A bar so many times higher than nine in ten of them is off the scale. */
const OFF_SCALE = 3;
/** More bars than this are too thin to tell apart; the table has them all. */
const MAX_BARS = 60;

/** Seconds of each step, stacked; what is not part of the sum lies in a lane below. Means and p90 are over the bars shown, without ghosts. */
export function StackedBar({ title, note, parts, lane, bars, height = 168, onOpen }: Props) {
  const [host, width] = useWidth<HTMLDivElement>();
  const shown = bars.slice(-MAX_BARS);
  const sum = (bar: Bar) => parts.reduce((total, part) => total + (bar.values[part.key] ?? 0), 0);
  const highest = Math.max(0, ...shown.map(sum));
  const usual = quantile(shown.map(sum), 0.9) ?? 0;
  // One step that waited for hours must not flatten the others: it is cut, with a mark and its value.
  const top = niceCeiling(highest > OFF_SCALE * usual ? 1.25 * usual : highest);
  const laneTop = lane === undefined ? 0 : Math.max(0, ...shown.map((bar) => bar.values[lane.key] ?? 0));
  const plotHeight = height - 22 - (lane === undefined ? 0 : LANE_PX + 8);
  const y = (value: number) => plotHeight - (Math.min(value, top) / top) * (plotHeight - 6);
  const slot = (width - AXIS_PX) / Math.max(shown.length, 8);
  const barWidth = Math.max(1, Math.min(28, slot - 2));
  const counted = shown.filter((bar) => !bar.isGhost);
  const valuesOf = (part: Part) => counted.map((bar) => bar.values[part.key] ?? 0);
  const all = lane === undefined ? parts : [...parts, lane];
  const total = mean(counted.map(sum)) ?? 0;
  const words = (part: Part) => {
    const average = mean(valuesOf(part)) ?? 0;
    const share = part === lane ? " (apart)" : total > 0 ? ` · ${Math.round((average / total) * 100)} %` : "";
    return `${part.label} ${formatDuration(average)}${share} · p90 ${formatDuration(quantile(valuesOf(part), 0.9))}`;
  };

  return (
    <ChartFrame
      title={title}
      {...(note === undefined ? {} : { note })}
      legend={shown.length === 0 ? [] : all.map((part) => ({ label: words(part), color: part.color, mark: "block" as const }))}
      twin={<Twin all={all} bars={bars} />}
    >
      <div ref={host} className={classes.host}>
        {shown.length === 0 ? (
          <div className={classes.nothing} style={{ height }}>
            No steps yet
          </div>
        ) : (
          <svg width={width} height={height} role="img" aria-label={`${title}: ${counted.length} steps, mean ${formatDuration(total)}`}>
            {[0, top / 2, top].map((tick) => (
              <g key={tick}>
                <line x1={AXIS_PX} x2={width} y1={y(tick)} y2={y(tick)} className={classes.grid} />
                <text x={AXIS_PX - 6} y={y(tick) + 4} className={classes.tick} textAnchor="end">
                  {formatTick(tick)}
                </text>
              </g>
            ))}
            {shown.map((bar, index) => {
              const x = AXIS_PX + index * slot + (slot - barWidth) / 2;
              let below = 0;
              return (
                <g key={bar.key} opacity={bar.isGhost ? 0.35 : 1} style={onOpen === undefined ? {} : { cursor: "pointer" }} onClick={() => onOpen?.(bar)}>
                  <title>{describe(bar, all)}</title>
                  {parts.map((part) => {
                    const value = bar.values[part.key] ?? 0;
                    below += value;
                    return (
                      <rect key={part.key} x={x} y={y(below)} width={barWidth} height={Math.max(0, y(below - value) - y(below))} fill={part.color} />
                    );
                  })}
                  {sum(bar) > top && <OffScale x={x} width={barWidth} words={formatDuration(sum(bar))} isAtEnd={x > width - 80} />}
                  {lane !== undefined && laneTop > 0 && (
                    <rect
                      x={x}
                      y={plotHeight + 8 + LANE_PX * (1 - (bar.values[lane.key] ?? 0) / laneTop)}
                      width={barWidth}
                      height={LANE_PX * ((bar.values[lane.key] ?? 0) / laneTop)}
                      fill={lane.color}
                    />
                  )}
                  {(index % Math.ceil(shown.length / 8) === 0 || shown.length <= 8) && (
                    <text x={x + barWidth / 2} y={height - 6} className={classes.tick} textAnchor="middle">
                      {bar.label}
                    </text>
                  )}
                </g>
              );
            })}
            {lane !== undefined && (
              <>
                <line x1={AXIS_PX} x2={width} y1={plotHeight + 8 + LANE_PX} y2={plotHeight + 8 + LANE_PX} className={classes.grid} />
                <text x={AXIS_PX - 6} y={plotHeight + 16} className={classes.tick} textAnchor="end">
                  {formatNumber(laneTop)}
                </text>
              </>
            )}
          </svg>
        )}
      </div>
    </ChartFrame>
  );
}

/** ▲ on the upper edge, and how far it would go. */
function OffScale({ x, width, words, isAtEnd }: { x: number; width: number; words: string; isAtEnd: boolean }) {
  return (
    <>
      <path d={`M${x - 1} 7h${width + 2}l${-(width + 2) / 2} -7z`} fill="var(--ink)" />
      <text x={isAtEnd ? x - 4 : x + width + 4} y={10} textAnchor={isAtEnd ? "end" : "start"} className={classes.tick}>
        {words}
      </text>
    </>
  );
}

function describe(bar: Bar, all: readonly Part[]): string {
  const lines = all.map((part) => `${part.label} ${formatDuration(bar.values[part.key] ?? 0)}`);
  return [`step ${bar.label}${bar.isGhost ? " (superseded)" : ""}`, ...lines].join("\n");
}

function niceCeiling(value: number): number {
  if (value <= 0) return 1;
  const magnitude = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 4, 5, 6, 8, 10].find((factor) => factor * magnitude >= value) ?? 10;
  return step * magnitude;
}

function Twin({ all, bars }: { all: readonly Part[]; bars: readonly Bar[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">step</th>
          {all.map((part) => (
            <th key={part.key} scope="col">
              {part.label} s
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {[...bars].reverse().map((bar) => (
          <tr key={bar.key}>
            <td>
              {bar.label}
              {bar.isGhost && " (superseded)"}
            </td>
            {all.map((part) => (
              <td key={part.key}>{(bar.values[part.key] ?? 0).toFixed(2)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
