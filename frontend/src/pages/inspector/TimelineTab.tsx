import { useState } from "react";

import { EmptyState } from "../../components/EmptyState";
import { Lanes } from "../../components/Lanes";
import { formatDuration } from "../../lib/format";
import { attemptSegments, idleSeconds, STAGE_COLORS, turnSegments } from "../../lib/timeline";
import type { TabProps } from "./tabs";
import classes from "./TimelineTab.module.css";

/** Lanes on one page: more cannot be read one by one. */
const TURNS_A_PAGE = 100;

/** Where the time went: the whole attempt on one lane, then a lane a turn. */
export function TimelineTab({ attempt, turns, selected, onSelect }: TabProps) {
  const at = Math.max(0, turns.findIndex((turn) => turn.index === selected));
  const [page, setPage] = useState(Math.floor(at / TURNS_A_PAGE));
  if (attempt.started_at === null) return <EmptyState title="Not started">It waits for a slot of a rollout worker.</EmptyState>;
  const whole = attemptSegments(attempt, turns);
  const idle = idleSeconds(whole);
  const end = Math.max(1, ...whole.map((segment) => segment.to));
  const queued = attempt.timings.queue ?? (Date.parse(attempt.started_at) - Date.parse(attempt.created_at)) / 1000;
  const shown = turns.slice(page * TURNS_A_PAGE, (page + 1) * TURNS_A_PAGE);
  const from = shown.length < turns.length ? (shown[0]?.offset_s ?? 0) : 0;
  const to = shown.length < turns.length ? Math.max(from + 1, ...shown.map((turn) => turn.offset_s + turn.llm_s + turn.exec_s)) : end;

  return (
    <div className={classes.page}>
      <p className={classes.lead}>
        {formatDuration(end)} from its start to its end, after {formatDuration(queued)} in the queue.{" "}
        {idle > 0 && `${formatDuration(idle)} (${Math.round((idle / end) * 100)} %) no stage explains: hatched.`}
      </p>
      <Shares parts={sharesOf(whole)} total={end} />
      <Lanes
        label="Waterfall" note={`turns ${shown[0]?.index ?? 0} to ${shown.at(-1)?.index ?? 0} of ${turns.length}; seconds from the attempt's start`}
        from={from} to={to} legend={LEGEND}
        lanes={[
          { key: "attempt", label: "attempt", segments: whole },
          ...shown.map((turn) => ({
            key: turn.index, label: `turn ${turn.index}`, note: turn.preview.slice(0, 60), segments: turnSegments(turn),
            ...(turn.isError ? { tone: "failed" as const } : {}),
          })),
        ]}
        onOpen={(key) => {
          if (typeof key === "number") onSelect(key);
        }}
      />
      {turns.length > TURNS_A_PAGE && (
        <p className={classes.pager}>
          <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>← Earlier turns</button>
          <button type="button" disabled={(page + 1) * TURNS_A_PAGE >= turns.length} onClick={() => setPage(page + 1)}>Later turns →</button>
        </p>
      )}
    </div>
  );
}

const LEGEND = [
  { label: "start, setup, command", color: `var(${STAGE_COLORS.exec})`, mark: "block" as const },
  { label: "LLM queue (hatched), idle (hatched)", color: `var(${STAGE_COLORS.idle})`, mark: "block" as const },
  { label: "LLM generate", color: `var(${STAGE_COLORS.llm})`, mark: "block" as const },
  { label: "verify", color: `var(${STAGE_COLORS.verify})`, mark: "block" as const },
];

type Share = { label: string; seconds: number; color: string; isHatched: boolean };

/** Seconds by kind, in the order in which they first came. */
function sharesOf(segments: ReturnType<typeof attemptSegments>): Share[] {
  const shares = new Map<string, Share>();
  for (const { label, color, from, to, isHatched = false } of segments) {
    const share = shares.get(label) ?? { label, seconds: 0, color: `var(${color})`, isHatched };
    shares.set(label, { ...share, seconds: share.seconds + to - from });
  }
  return [...shares.values()];
}

function Shares({ parts, total }: { parts: readonly Share[]; total: number }) {
  const say = ({ label, seconds }: Share) => `${label} ${formatDuration(seconds)} · ${Math.round((seconds / total) * 100)} %`;
  return (
    <>
      <div className={classes.bar} role="img" aria-label={parts.map(say).join(", ")}>
        {parts.map((part) => (
          <span key={part.label} data-hatched={part.isHatched} style={{ flexGrow: part.seconds, color: part.color }} title={say(part)} />
        ))}
      </div>
      <ul className={classes.legend}>
        {parts.map((part) => (
          <li key={part.label}>
            <span className={classes.swatch} data-hatched={part.isHatched} style={{ color: part.color }} />
            {say(part)}
          </li>
        ))}
      </ul>
    </>
  );
}
