import { SegmentedControl } from "@mantine/core";
import { useEffect, useMemo, useState } from "react";

import { ChartFrame } from "../../components/ChartFrame";
import { useWidth } from "../../components/useWidth";
import { type Cap, type CapEffect, ceilingOf, effectOf, type Recorded } from "../../lib/caps";
import { formatCount, formatNumber, formatShare, formatTick } from "../../lib/format";
import classes from "./TailTab.module.css";

type Props = {
  stage: string | null;
  recorded: Recorded;
  cap: Cap;
  /** undefined: no cap. */
  at: number | undefined;
  onChange: (change: { cap?: Cap; at?: number | undefined }) => void;
};

const UNIT: Record<Cap, string> = { turns: "turns", tokens: "tokens out", seconds: "s" };
const POSITIONS = 80;
const SETTLE_MS = 250;

/** What a cap would have saved and lost, from what was recorded without it. */
export function CapWhatIf({ stage, recorded, cap, at, onChange }: Props) {
  const most = useMemo(() => ceilingOf(recorded[cap]), [recorded, cap]);
  const [draft, setDraft] = useState<number | undefined>(undefined);
  const value = Math.min(most, draft ?? at ?? most);
  const effect = useMemo(() => effectOf(recorded, cap, value), [recorded, cap, value]);

  // The address follows when the hand rests.
  useEffect(() => {
    if (draft === undefined) return;
    const timer = setTimeout(() => {
      onChange({ at: draft >= most ? undefined : draft });
      setDraft(undefined);
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [draft, most, onChange]);

  return (
    <ChartFrame
      title="What a cap would do" note={`over ${formatCount(effect.count)} trajectories of ${stage ?? "the stage"} that ended with a reward or by a failure`}
      legend={[
        { label: "rollout hours saved", color: "var(--role-rollout)" },
        { label: "solved trajectories lost", color: "var(--tone-solved)", mark: "dashes" },
      ]}
      twin={<Twin recorded={recorded} cap={cap} most={most} />}
    >
      <div className={classes.controls}>
        <SegmentedControl
          size="xs" aria-label="Cap on" value={cap} data={[{ value: "turns", label: "Turns" }, { value: "tokens", label: "Tokens" }, { value: "seconds", label: "Seconds" }]}
          onChange={(next) => onChange({ cap: next, at: undefined })}
        />
        <input
          type="range" className={classes.slider} aria-label={`Cap on ${cap}`} min={1} max={most} value={value}
          aria-valuetext={value >= most ? "no cap" : `${formatTick(value)} ${UNIT[cap]}`}
          onChange={(event) => setDraft(Number(event.currentTarget.value))}
        />
        <label className={classes.typed}>
          at
          <input
            type="number" min={1} max={most} value={value} aria-label={`Cap on ${cap}, typed`}
            onChange={(event) => {
              const typed = Number(event.currentTarget.value);
              if (Number.isInteger(typed) && typed > 0) setDraft(Math.min(most, typed));
            }}
          />
          {UNIT[cap]}
        </label>
      </div>
      <Verdict effect={effect} isCapped={value < most} />
      <Curve recorded={recorded} cap={cap} most={most} at={value} />
      <p className={classes.assumption}>
        A cut trajectory is taken to score 0 and to end at the cap
        {cap === "seconds" ? "." : `; its time until then is its share of ${cap}, as if each had taken as long.`} What the freed engines would have done is not counted.
      </p>
    </ChartFrame>
  );
}

function Verdict({ effect, isCapped }: { effect: CapEffect; isCapped: boolean }) {
  const rate = (solved: number) => (effect.valid === 0 ? null : solved / effect.valid);
  return (
    <p className={classes.verdict} aria-live="polite">
      {isCapped ? (
        <>
          <b>{formatNumber(effect.hoursSaved)} h</b> of {formatNumber(effect.hours)} h saved ({formatShare(effect.hours === 0 ? 0 : effect.hoursSaved / effect.hours)}),{" "}
          <b>{formatCount(effect.solvedLost)}</b> of {formatCount(effect.solved)} solved lost, {formatCount(effect.cut)} cut. Solve rate of the valid{" "}
          {formatShare(rate(effect.solved))} → {formatShare(rate(effect.solved - effect.solvedLost))}.
        </>
      ) : (
        "No cap: move the slider, or type one."
      )}
    </p>
  );
}

const HEIGHT = 132;
const LEFT_PX = 40;

/** Both shares at every position of the slider. */
function Curve({ recorded, cap, most, at }: { recorded: Recorded; cap: Cap; most: number; at: number }) {
  const [host, width] = useWidth<HTMLDivElement>();
  const points = useMemo(
    () =>
      Array.from({ length: POSITIONS + 1 }, (_, index) => {
        const value = Math.max(1, (index / POSITIONS) * most);
        const { hours, hoursSaved, solved, solvedLost } = effectOf(recorded, cap, value);
        return { value, saved: hours === 0 ? 0 : hoursSaved / hours, lost: solved === 0 ? 0 : solvedLost / solved };
      }),
    [recorded, cap, most],
  );
  const x = (value: number) => LEFT_PX + (value / most) * (width - LEFT_PX - 12);
  const y = (share: number) => 6 + (1 - share) * (HEIGHT - 28);
  const path = (pick: (point: (typeof points)[number]) => number) => points.map((point, index) => `${index === 0 ? "M" : "L"}${x(point.value).toFixed(1)} ${y(pick(point)).toFixed(1)}`).join("");
  return (
    <div ref={host} className={classes.host}>
      <svg width={width} height={HEIGHT} aria-hidden="true">
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <line x1={LEFT_PX} x2={width} y1={y(share)} y2={y(share)} className={classes.grid} />
            <text x={LEFT_PX - 6} y={y(share) + 4} textAnchor="end" className={classes.tick}>{share * 100} %</text>
          </g>
        ))}
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <text key={part} x={x(part * most)} y={HEIGHT - 4} textAnchor={part === 0 ? "start" : part === 1 ? "end" : "middle"} className={classes.tick}>{formatTick(Math.round(part * most))}</text>
        ))}
        <line x1={x(at)} x2={x(at)} y1={y(1)} y2={y(0)} stroke="var(--ink)" />
        <path d={path((point) => point.saved)} fill="none" stroke="var(--role-rollout)" strokeWidth="2" />
        <path d={path((point) => point.lost)} fill="none" stroke="var(--tone-solved)" strokeWidth="2" strokeDasharray="5 3" />
      </svg>
    </div>
  );
}

function Twin({ recorded, cap, most }: { recorded: Recorded; cap: Cap; most: number }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">cap ({UNIT[cap]})</th>
          <th scope="col">cut</th>
          <th scope="col">hours saved</th>
          <th scope="col">solved lost</th>
        </tr>
      </thead>
      <tbody>
        {Array.from({ length: 10 }, (_, index) => Math.max(1, Math.round((most * (10 - index)) / 10))).map((value) => {
          const effect = effectOf(recorded, cap, value);
          return (
            <tr key={value}>
              <td>{formatTick(value)}</td>
              <td>{formatCount(effect.cut)}</td>
              <td>{formatNumber(effect.hoursSaved)}</td>
              <td>{formatCount(effect.solvedLost)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
