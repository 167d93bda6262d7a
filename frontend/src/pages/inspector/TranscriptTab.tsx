import { useQueries } from "@tanstack/react-query";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useLayoutEffect, useRef, useState } from "react";

import { TURNS_AT_ONCE, turnsFromQuery } from "../../api/inspector";
import type { Turn } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { EmptyState } from "../../components/EmptyState";
import { formatBytes, formatCount, formatDuration, words } from "../../lib/format";
import type { OutlineTurn } from "../../lib/outline";
import { versions } from "../../lib/turns";
import { Body } from "./Body";
import { flagsOf } from "./OutlinePane";
import { isLive, type TabProps } from "./tabs";
import classes from "./TranscriptTab.module.css";

/** Before a turn is measured. */
const TURN_PX = 160;
const HEADER_PX = 56;

/** The conversation: what the model wrote, and what the sandbox answered. Turns out of view are not in the page. */
export function TranscriptTab({ trajectory, attempt, chosen, turns, selected }: TabProps) {
  const list = useRef<HTMLOListElement>(null);
  const [margin, setMargin] = useState(0);
  const virtualizer = useWindowVirtualizer({
    count: turns.length + 1,
    estimateSize: () => TURN_PX,
    overscan: 4,
    gap: 12,
    scrollMargin: margin,
    scrollPaddingStart: HEADER_PX,
    getItemKey: (item) => (item === 0 ? "task" : (turns[item - 1]?.index ?? item)),
    initialRect: { width: 1200, height: 900 },
  });
  const items = virtualizer.getVirtualItems();
  const texts = useTexts(trajectory.id, chosen, turns, items.map((item) => item.index - 1));
  const at = turns.findIndex((turn) => turn.index === selected);
  const { numNew, follow } = useFollow(isLive(attempt) && selected === undefined, turns.length, () => virtualizer.scrollToIndex(turns.length, { align: "end" }));

  useLayoutEffect(() => {
    const measure = () => setMargin((list.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, []);

  useHeld(at, () => {
    const top = list.current?.querySelector(`[data-index="${at + 1}"]`)?.getBoundingClientRect().top;
    if (top === undefined || Math.abs(top - HEADER_PX) > 2) virtualizer.scrollToIndex(at + 1, { align: "start" });
  });

  return (
    <>
      <ol ref={list} className={classes.turns} style={{ height: virtualizer.getTotalSize() }} aria-label="Transcript">
        {items.map((item) => {
          const turn = turns[item.index - 1];
          return (
            <li
              key={item.key} ref={virtualizer.measureElement} data-index={item.index} className={classes.place}
              style={{ transform: `translateY(${item.start - margin}px)` }}
            >
              {item.index === 0 ? (
                <Task instruction={trajectory.instruction} />
              ) : turn !== undefined && (
                <TurnView
                  outline={turn} text={texts.get(turn.index)} trajectory={trajectory.id} attempt={attempt.number} isSelected={turn.index === selected}
                />
              )}
            </li>
          );
        })}
      </ol>
      {turns.length === 0 && (
        <EmptyState title="No turns">
          {isLive(attempt) ? "The model has not been called yet; turns appear here as they are stored." : "This attempt ended before the model was called."}
        </EmptyState>
      )}
      {numNew !== null && (
        <button type="button" className={classes.jump} onClick={follow}>
          Jump to live ({numNew} new)
        </button>
      )}
    </>
  );
}

/** The texts of the turns in view, TURNS_AT_ONCE at a time. */
function useTexts(trajectory: number, attempt: number | undefined, turns: readonly OutlineTurn[], shown: readonly number[]): Map<number, Turn> {
  const from = (position: number) => turns[position - (position % TURNS_AT_ONCE)]?.index;
  const starts = [...new Set(shown.map(from).filter((start) => start !== undefined))];
  const chunks = useQueries({ queries: starts.map((start) => turnsFromQuery(trajectory, attempt, start)) });
  return new Map(chunks.flatMap((chunk) => chunk.data ?? []).map((turn) => [turn.index, turn]));
}

/** Holds a chosen turn in its place while texts above it get their heights, until the reader moves the page. */
function useHeld(at: number, hold: () => void): void {
  const isHeld = useRef(false);
  useLayoutEffect(() => {
    isHeld.current = at >= 0;
  }, [at]);
  useLayoutEffect(() => {
    if (isHeld.current) hold();
  });
  useEffect(() => {
    const free = () => {
      isHeld.current = false;
    };
    const moves = ["wheel", "touchmove", "pointerdown", "keydown"] as const;
    for (const move of moves) window.addEventListener(move, free, { passive: true, capture: true });
    return () => {
      for (const move of moves) window.removeEventListener(move, free, { capture: true });
    };
  }, []);
}

/** Stays at the end of a running attempt until the reader scrolls up; null while there is nothing to jump to. */
function useFollow(isRunning: boolean, count: number, toEnd: () => void): { numNew: number | null; follow: () => void } {
  const [leftAt, setLeftAt] = useState<number | null>(null);
  const scroll = useRef(toEnd);
  useEffect(() => {
    scroll.current = toEnd;
  });

  useEffect(() => {
    if (!isRunning) return;
    const leave = () => setLeftAt((left) => left ?? count);
    const onWheel = (event: WheelEvent) => {
      if (event.deltaY < 0) leave();
    };
    const onKey = (event: KeyboardEvent) => {
      if (["ArrowUp", "PageUp", "Home"].includes(event.key)) leave();
    };
    window.addEventListener("wheel", onWheel, { passive: true });
    window.addEventListener("touchmove", leave, { passive: true });
    window.addEventListener("keydown", onKey);
    return () => {
      window.removeEventListener("wheel", onWheel);
      window.removeEventListener("touchmove", leave);
      window.removeEventListener("keydown", onKey);
    };
  }, [isRunning, count]);

  useEffect(() => {
    if (isRunning && leftAt === null && count > 0) scroll.current();
  }, [isRunning, leftAt, count]);

  const follow = () => {
    setLeftAt(null);
    toEnd();
  };
  return { numNew: isRunning && leftAt !== null ? count - leftAt : null, follow };
}

function Task({ instruction }: { instruction: string }) {
  return (
    <article className={classes.turn}>
      <header className={classes.head}>
        <h2>Task</h2>
      </header>
      <CodeBlock label="instruction" text={instruction} />
    </article>
  );
}

type TurnProps = { outline: OutlineTurn; text: Turn | undefined; trajectory: number; attempt: number; isSelected: boolean };

const TurnView = memo(function TurnView({ outline, text, trajectory, attempt, isSelected }: TurnProps) {
  const of = { trajectory, attempt, turn: outline.index };
  return (
    <article className={classes.turn} data-turn={outline.index} data-selected={isSelected} aria-busy={text === undefined}>
      <header className={classes.head}>
        <h2>Turn {outline.index}</h2>
        <span>
          model {formatDuration(outline.llm_s)}
          {outline.queue_s !== null && outline.queue_s >= 0.001 && ` (queue ${formatDuration(outline.queue_s)})`}, {formatCount(outline.output_tokens)} tokens
          {text !== undefined && text.finish_reason !== "stop" && ` (${words(text.finish_reason)})`}
        </span>
        <span>sandbox {formatDuration(outline.exec_s)}</span>
        <span {...(text === undefined ? {} : { title: `${formatCount(text.cached_tokens)} of ${formatCount(text.prompt_tokens)} prompt tokens from the cache` })}>
          context {formatCount(outline.prompt_tokens)}
        </span>
        {text !== undefined && <span>{versions(text)}</span>}
        {flagsOf(outline).map(({ word, isBad }) => (
          <span key={word} className={isBad ? classes.bad : undefined}>{word}</span>
        ))}
        {outline.exit_code === 0 && <span>exit 0</span>}
      </header>
      {text === undefined ? <p className={classes.notice}>{outline.preview}</p> : <Texts turn={text} of={of} />}
    </article>
  );
});

function Texts({ turn, of }: { turn: Turn; of: { trajectory: number; attempt: number; turn: number } }) {
  return (
    <>
      <div className={classes.action}>
        <Body label={`action of turn ${turn.index}`} text={turn.action} length={turn.action_length} of={{ ...of, part: "action" }} />
      </div>
      {turn.command !== "" && !turn.action.includes(turn.command) && (
        <>
          <h3 className={classes.label}>Command</h3>
          <Body label={`command of turn ${turn.index}`} text={turn.command} length={turn.command_length} of={{ ...of, part: "command" }} />
        </>
      )}
      {turn.observation !== "" && (
        <Body label={`output of turn ${turn.index}`} text={turn.observation} length={turn.observation_length} of={{ ...of, part: "observation" }} />
      )}
      {turn.truncated_bytes > 0 && (
        <p className={classes.notice}>The agent saw {formatBytes(turn.truncated_bytes)} less: its output cap cut them.</p>
      )}
      {turn.log_length > 0 && (
        <Body label={`raw output of turn ${turn.index}`} text="" length={turn.log_length} of={{ ...of, part: "log" }} />
      )}
    </>
  );
}
