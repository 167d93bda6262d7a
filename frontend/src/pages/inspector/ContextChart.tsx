import { ChartFrame } from "../../components/ChartFrame";
import { useWidth } from "../../components/useWidth";
import { formatCount } from "../../lib/format";
import type { OutlineTurn } from "../../lib/outline";
import classes from "./ContextChart.module.css";

type Props = { turns: readonly OutlineTurn[]; cap: number | null; onSelect: (turn: number) => void };

const HEIGHT = 96;
const LEFT = 4;
const TOP = 14;

/** Tokens in the context after each turn, against the cap that ends the trajectory. */
export function ContextChart({ turns, cap, onSelect }: Props) {
  const [host, width] = useWidth<HTMLDivElement>(256);
  if (turns.length === 0) return null;
  const values = turns.map((turn) => turn.prompt_tokens + turn.output_tokens);
  const last = values.at(-1) ?? 0;
  const top = Math.max(cap ?? 0, ...values, 1);
  const x = (i: number) => LEFT + (i / Math.max(1, turns.length - 1)) * (width - 2 * LEFT);
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - 2);
  const path = values.map((value, i) => `${i === 0 ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const twin = (
    <table className={classes.twin}>
      <thead>
        <tr>
          <th scope="col" data-align="right">Turn</th>
          <th scope="col" data-align="right">Context, tokens</th>
        </tr>
      </thead>
      <tbody>
        {turns.slice(0, 500).map((turn, i) => (
          <tr key={turn.index}>
            <td data-align="right">{turn.index}</td>
            <td data-align="right">{formatCount(values[i])}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
  return (
    <ChartFrame title="Context" note={`tokens after each turn${cap === null ? "" : `; the cap is ${formatCount(cap)}`}`} twin={twin}>
      <div ref={host}>
        <svg
          width={width} height={HEIGHT} role="img" className={classes.chart}
          aria-label={`Context grows to ${formatCount(last)} tokens${cap === null ? "" : ` of ${formatCount(cap)}`}`}
          onClick={(event) => {
            const share = (event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / (width - 2 * LEFT);
            const turn = turns[Math.round(Math.min(1, Math.max(0, share)) * (turns.length - 1))];
            if (turn !== undefined) onSelect(turn.index);
          }}
        >
          {cap !== null && (
            <>
              <path d={`M${LEFT} ${y(cap)}H${width - LEFT}`} stroke="var(--tone-failed)" strokeDasharray="4 3" />
              <text x={width - LEFT} y={y(cap) - 4} textAnchor="end" className={classes.label}>cap {formatCount(cap)}</text>
            </>
          )}
          <path d={`${path}L${x(values.length - 1)} ${HEIGHT - 2}L${LEFT} ${HEIGHT - 2}Z`} fill="var(--role-llm)" opacity="0.12" />
          <path d={path} fill="none" stroke="var(--role-llm)" strokeWidth="1.5" />
          <circle cx={x(values.length - 1)} cy={y(last)} r="2.5" fill="var(--role-llm)" />
        </svg>
        <div className={classes.last}>{formatCount(last)} tokens after the last turn</div>
      </div>
    </ChartFrame>
  );
}
