import { memo, useEffect, useRef } from "react";

import type { Turn } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { EmptyState } from "../../components/EmptyState";
import { Icon } from "../../components/Icon";
import { formatBytes, formatCount, formatDuration, words } from "../../lib/format";
import classes from "./TranscriptTab.module.css";
import { isErroneous, versions } from "../../lib/turns";

type Props = { instruction: string; turns: readonly Turn[]; selected: number | undefined; onSelect: (turn: number) => void };

/** An outline of turns beside what was said and seen. */
export function TranscriptTab({ instruction, turns, selected, onSelect }: Props) {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    if (selected === undefined) return;
    list.current?.querySelector(`[data-turn="${selected}"]`)?.scrollIntoView({ block: "start" });
  }, [selected, turns]);
  const slowest = Math.max(0.001, ...turns.map((turn) => turn.llm_s + turn.exec_s));

  return (
    <div className={classes.panes}>
      <nav className={classes.outline} aria-label="Turns">
        {turns.map((turn) => (
          <button key={turn.index} type="button" data-active={turn.index === selected} onClick={() => onSelect(turn.index)}>
            <span className={classes.number}>{turn.index}</span>
            <span className={classes.command}>{firstLine(turn.command || turn.action)}</span>
            {isErroneous(turn) && (
              <span className={classes.bad} title={turn.is_timed_out ? "timed out" : `exit ${turn.exit_code ?? ""}`}>
                <Icon name="cross" size={11} />
              </span>
            )}
            <svg className={classes.bar} width="40" height="6" aria-hidden="true">
              <rect width={(turn.llm_s / slowest) * 40} height="6" fill="var(--role-llm)" />
              <rect x={(turn.llm_s / slowest) * 40} width={(turn.exec_s / slowest) * 40} height="6" fill="var(--role-sandbox)" />
            </svg>
          </button>
        ))}
      </nav>
      <ol className={classes.turns} ref={list}>
        <li className={classes.turn}>
          <header className={classes.head}>
            <h2>Task</h2>
          </header>
          <CodeBlock label="instruction" text={instruction} />
        </li>
        {turns.length === 0 && (
          <li>
            <EmptyState title="No turns">This attempt ended before the model was called.</EmptyState>
          </li>
        )}
        {turns.map((turn) => (
          <TurnView key={turn.index} turn={turn} isSelected={turn.index === selected} />
        ))}
      </ol>
    </div>
  );
}

const TurnView = memo(function TurnView({ turn, isSelected }: { turn: Turn; isSelected: boolean }) {
  return (
    <li className={classes.turn} data-turn={turn.index} data-selected={isSelected}>
      <header className={classes.head}>
        <h2>Turn {turn.index}</h2>
        <span>
          model {formatDuration(turn.llm_s)}, {formatCount(turn.output_tokens)} tokens
          {turn.finish_reason !== "stop" && ` (${words(turn.finish_reason)})`}
        </span>
        <span>sandbox {formatDuration(turn.exec_s)}</span>
        <span title={`${formatCount(turn.cached_tokens)} of ${formatCount(turn.prompt_tokens)} prompt tokens from the cache`}>
          context {formatCount(turn.prompt_tokens)}
        </span>
        <span>{versions(turn)}</span>
        <ExitCode turn={turn} />
      </header>
      <div className={classes.action}>
        <CodeBlock label={`action of turn ${turn.index}`} text={turn.action} />
      </div>
      {turn.command !== "" && turn.command.trim() !== turn.action.trim() && (
        <>
          <h3 className={classes.label}>Command</h3>
          <CodeBlock label={`command of turn ${turn.index}`} text={turn.command} />
        </>
      )}
      {turn.observation !== "" && <CodeBlock label={`output of turn ${turn.index}`} text={turn.observation} />}
      {turn.truncated_bytes > 0 && (
        <p className={classes.notice}>The agent saw {formatBytes(turn.truncated_bytes)} less: its output cap cut them.</p>
      )}
    </li>
  );
});

function ExitCode({ turn }: { turn: Turn }) {
  if (turn.is_timed_out) return <span className={classes.bad}>timed out</span>;
  if (turn.exit_code === null) return null;
  return <span className={turn.exit_code === 0 ? "" : classes.bad}>exit {turn.exit_code}</span>;
}

function firstLine(text: string): string {
  return text.trim().split("\n", 1)[0] ?? "";
}
