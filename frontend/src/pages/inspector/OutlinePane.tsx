import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";

import { formatDuration, visibleText } from "../../lib/format";
import type { OutlineTurn } from "../../lib/outline";
import classes from "./OutlinePane.module.css";

type Props = { turns: readonly OutlineTurn[]; selected: number | undefined; onSelect: (turn: number) => void };

const ROW_PX = 28;
const BAR_PX = 40;

/** Every turn in one line: what it did, what is remarkable about it, where its time went. Ten thousand turns are a screenful of rows. */
export function OutlinePane({ turns, selected, onSelect }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const at = turns.findIndex((turn) => turn.index === selected);
  const slowest = turns.reduce((most, turn) => Math.max(most, turn.llm_s + turn.exec_s), 0.001);
  // eslint-disable-next-line react-hooks/incompatible-library -- no compiler here; nothing of it is passed on
  const virtualizer = useVirtualizer({
    count: turns.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    initialRect: { width: 248, height: 640 },
  });

  useEffect(() => {
    if (at >= 0) virtualizer.scrollToIndex(at, { align: "auto" });
  }, [at, virtualizer]);

  if (turns.length === 0) return <div className={classes.empty}>No turns yet.</div>;
  return (
    <nav className={classes.outline} aria-label="Turns">
      <header className={classes.head}>
        <span>{turns.length} {turns.length === 1 ? "turn" : "turns"}</span>
        <span>
          <i className={classes.llm} /> LLM <i className={classes.sandbox} /> sandbox
        </span>
      </header>
      <div ref={scroller} className={classes.scroller}>
        <ol className={classes.rows} style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const turn = turns[item.index];
            if (turn === undefined) return null;
            return (
              <li key={turn.index} className={classes.row} style={{ transform: `translateY(${item.start}px)` }}>
                <button type="button" data-active={turn.index === selected} aria-current={turn.index === selected} onClick={() => onSelect(turn.index)} title={describe(turn)}>
                  <span className={classes.number}>{turn.index}</span>
                  <span className={classes.command}>{visibleText(turn.preview)}</span>
                  <Flags turn={turn} />
                  <svg width={BAR_PX} height="6" aria-hidden="true">
                    <rect width={(turn.llm_s / slowest) * BAR_PX} height="6" fill="var(--role-llm)" />
                    <rect x={(turn.llm_s / slowest) * BAR_PX} width={(turn.exec_s / slowest) * BAR_PX} height="6" fill="var(--role-sandbox)" />
                  </svg>
                </button>
              </li>
            );
          })}
        </ol>
      </div>
    </nav>
  );
}

/** Signs with a word each: no state is told by colour alone. */
export function flagsOf(turn: OutlineTurn): { sign: string; word: string; isBad?: boolean }[] {
  return [
    ...(turn.isTimeout ? [{ sign: "⧗", word: "timed out", isBad: true }] : []),
    ...(turn.isError && !turn.isTimeout ? [{ sign: "✕", word: `exit ${turn.exit_code ?? "?"}`, isBad: true }] : []),
    ...(turn.hasNoAction ? [{ sign: "∅", word: "no action", isBad: true }] : []),
    ...(turn.isRepeated ? [{ sign: "⟳", word: "command repeated" }] : []),
    ...(turn.isFirstEdit ? [{ sign: "✎", word: "first edit" }] : []),
    ...(turn.isFirstTest ? [{ sign: "⚑", word: "first test run" }] : []),
    ...(turn.isCut ? [{ sign: "…", word: "output cut" }] : []),
    ...(turn.isSubmit ? [{ sign: "⏎", word: "submitted" }] : []),
  ];
}

function Flags({ turn }: { turn: OutlineTurn }) {
  return (
    <span className={classes.flags}>
      {flagsOf(turn).map(({ sign, word, isBad }) => (
        <span key={word} className={isBad ? classes.bad : undefined} role="img" aria-label={word} title={word}>
          {sign}
        </span>
      ))}
    </span>
  );
}

function describe(turn: OutlineTurn): string {
  const flags = flagsOf(turn).map(({ word }) => word);
  return [`Turn ${turn.index}: LLM ${formatDuration(turn.llm_s)}, sandbox ${formatDuration(turn.exec_s)}`, ...flags].join(" · ");
}
