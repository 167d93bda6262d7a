import type { Attempt, Turn } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { useWidth } from "../../components/useWidth";
import { formatDuration, words } from "../../lib/format";
import classes from "./TimelineTab.module.css";

type Props = { attempt: Attempt | undefined; turns: readonly Turn[]; onSelect: (turn: number) => void };

const COLORS: Record<string, string> = {
  queue: "var(--role-other)", start: "color-mix(in srgb, var(--role-sandbox) 45%, var(--paper))",
  setup: "color-mix(in srgb, var(--role-sandbox) 70%, var(--paper))", llm: "var(--role-llm)", exec: "var(--role-sandbox)",
  verify: "var(--tone-unsolved)", teardown: "var(--role-other)",
};

/** Where the time went: the shares of the whole attempt, then each turn on one axis. */
export function TimelineTab({ attempt, turns, onSelect }: Props) {
  const [host, width] = useWidth<HTMLDivElement>(800);
  if (attempt === undefined || attempt.started_at === null) return <EmptyState title="Not started" />;
  const parts = Object.entries(attempt.timings).filter(([, seconds]) => seconds > 0);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  const start = Date.parse(attempt.started_at);
  const end = Math.max(...turns.map((turn) => Date.parse(turn.started_at) + (turn.llm_s + turn.exec_s) * 1000), start + 1000);
  const left = 48;
  const x = (at: number) => left + ((at - start) / (end - start)) * (width - left - 72);

  return (
    <div className={classes.page}>
      {total > 0 && (
        <>
          <div className={classes.bar} role="img" aria-label={parts.map(([name, seconds]) => `${words(name)} ${formatDuration(seconds)}`).join(", ")}>
            {parts.map(([name, seconds]) => (
              <span key={name} style={{ flexGrow: seconds, background: COLORS[name] ?? "var(--role-other)" }} title={`${words(name)} ${formatDuration(seconds)}`} />
            ))}
          </div>
          <ul className={classes.legend}>
            {parts.map(([name, seconds]) => (
              <li key={name}>
                <span className={classes.swatch} style={{ background: COLORS[name] ?? "var(--role-other)" }} />
                {words(name)} {formatDuration(seconds)} · {Math.round((seconds / total) * 100)} %
              </li>
            ))}
          </ul>
        </>
      )}
      <div ref={host} className={classes.lanes}>
        {turns.map((turn) => {
          const from = Date.parse(turn.started_at);
          return (
            <button key={turn.index} type="button" className={classes.lane} onClick={() => onSelect(turn.index)}>
              <svg width={width} height="20" aria-hidden="true">
                <text x={left - 12} y="14" textAnchor="end" className={classes.text}>
                  {turn.index}
                </text>
                <rect x={x(from)} y="5" width={Math.max(1, x(from + turn.llm_s * 1000) - x(from))} height="10" fill="var(--role-llm)" />
                <rect
                  x={x(from + turn.llm_s * 1000)} y="5" height="10" fill="var(--role-sandbox)"
                  width={Math.max(1, x(from + (turn.llm_s + turn.exec_s) * 1000) - x(from + turn.llm_s * 1000))}
                />
                <text x={Math.min(width - 66, x(from + (turn.llm_s + turn.exec_s) * 1000) + 6)} y="14" className={classes.text}>
                  {formatDuration(turn.llm_s + turn.exec_s)}
                </text>
              </svg>
              <span className={classes.hidden}>
                Turn {turn.index}: model {formatDuration(turn.llm_s)}, sandbox {formatDuration(turn.exec_s)}
              </span>
            </button>
          );
        })}
      </div>
    </div>
  );
}
