import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, memo, useMemo, useState } from "react";

import { type Tokens, TOKENS_AT_ONCE, tokensQuery } from "../../api/inspector";
import { EmptyState } from "../../components/EmptyState";
import { Loading } from "../../components/Loading";
import { ABSENT, formatCount, formatNumber, visibleText } from "../../lib/format";
import { FULL, gapOf, groupTokens, hueOfVersion, shadeOf, TOKEN_COLORINGS, type TokenColoring, visiblePiece } from "../../lib/tokenColors";
import { Fault } from "./Fault";
import { inspectorRoute } from "./route";
import type { TabProps } from "./tabs";
import classes from "./TokensTab.module.css";

const NAMES: Record<TokenColoring, string> = { gap: "Log-prob gap", logprob: "Log-prob", mask: "Loss mask", version: "Weight version" };

/** The tokens as the model saw them, coloured by what the trainer makes of them. */
export function TokensTab({ trajectory, attempt, turns, selected }: TabProps) {
  const { token, color } = inspectorRoute.useSearch();
  // Where a turn begins is in every answer; before the first, the window is the one that was asked for.
  const first = useQuery({ ...tokensQuery(trajectory.id, attempt.number, 0), enabled: token === undefined && selected !== undefined });
  const atTurn = turns.findIndex((turn) => turn.index === selected);
  const target = token ?? (atTurn >= 0 ? first.data?.turn_starts[atTurn] : undefined) ?? 0;
  const from = target - (target % TOKENS_AT_ONCE);
  const query = useQuery(tokensQuery(trajectory.id, attempt.number, from));
  if (query.isError) return <Fault query={query} />;
  if (query.data === undefined) return <Loading rows={8} />;
  const tokens = query.data;
  if (tokens.length === 0) return <EmptyState title="No tokens">{tokens.notes.join(" ")}</EmptyState>;
  const coloring = color ?? (tokens.trainer === null ? "logprob" : "gap");
  return (
    <div className={classes.page}>
      <p className={classes.lead}>
        {formatCount(tokens.length)} tokens, {formatCount(tokens.num_sampled)} of them sampled by the policy
        {tokens.gap_mean !== null && `; mean |log π − log μ| ${formatNumber(tokens.gap_mean)} in step ${tokens.step ?? ABSENT}`}.
      </p>
      {tokens.notes.map((note) => <p key={note} className={classes.note}>{note}</p>)}
      <div className={classes.bar} role="group" aria-label="Colour by">
        {TOKEN_COLORINGS.map((one) => (
          <Link
            key={one} from="/trajectories/$trajectory" resetScroll={false} data-active={one === coloring} className={classes.choice}
            search={(old) => ({ ...old, color: one })}
          >
            {NAMES[one]}
          </Link>
        ))}
        <Legend tokens={tokens} coloring={coloring} />
      </div>
      <TokenText key={from} tokens={tokens} coloring={coloring} target={target - from} />
      {tokens.length > TOKENS_AT_ONCE && <Pager from={from} tokens={tokens} />}
    </div>
  );
}

function Legend({ tokens, coloring }: { tokens: Tokens; coloring: TokenColoring }) {
  const items: { hue: string; label: string }[] =
    coloring === "gap" ? [
      { hue: "--role-trainer", label: `likelier for the trainer, full at +${FULL.gap} nat` },
      { hue: "--role-rollout", label: `less likely, full at −${FULL.gap} nat` },
    ]
    : coloring === "logprob" ? [{ hue: "--role-rollout", label: `surprise of the sampler, full at ${-FULL.logprob} nats` }]
    : coloring === "mask" ? [{ hue: "--role-llm", label: "sampled: in the loss" }]
    : [...new Set(tokens.versions.filter((version) => version !== null))].sort((a, b) => a - b).map((version) => ({ hue: hueOfVersion(version), label: `v${version}` }));
  return (
    <span className={classes.legend}>
      {items.map(({ hue, label }) => (
        <span key={label}>
          <i style={{ background: `var(${hue})` }} /> {label}
        </span>
      ))}
      <span>grey: not sampled</span>
    </span>
  );
}

/** Arrows move from token to token, with Shift from turn to turn; the readout says all that is known of one. */
function TokenText({ tokens, coloring, target }: { tokens: Tokens; coloring: TokenColoring; target: number }) {
  const [at, setAt] = useState(target);
  const groups = useMemo(() => groupTokens(tokens), [tokens]);
  const position = groups.findIndex((group) => group.from <= at && at < group.to);
  const move = (to: number) => {
    const next = groups[Math.max(0, Math.min(groups.length - 1, to))]?.from ?? 0;
    setAt(next);
    document.querySelector(`[data-token="${next}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const isByTurn = event.shiftKey;
    const starts = tokens.turn_starts.map((start) => start - tokens.start);
    if (event.key === "ArrowRight" && isByTurn) jump(starts.find((start) => start > at));
    else if (event.key === "ArrowLeft" && isByTurn) jump(starts.findLast((start) => start < at));
    else if (event.key === "ArrowRight") move(position + 1);
    else if (event.key === "ArrowLeft") move(position - 1);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(groups.length - 1);
    else return;
    event.preventDefault();
  };
  const jump = (to: number | undefined) => {
    if (to !== undefined && to >= 0 && to < tokens.ids.length) move(groups.findIndex((group) => group.from <= to && to < group.to));
  };
  return (
    <div className={classes.view}>
      <Readout tokens={tokens} at={at} />
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- an application: its arrows move a cursor over the tokens */}
      <div
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the same
        className={classes.text} role="application" aria-label="Tokens" aria-describedby="token-readout" tabIndex={0} onKeyDown={onKeyDown}
        onPointerMove={(event) => {
          const hovered = event.target instanceof HTMLElement ? event.target.dataset.token : undefined;
          if (hovered !== undefined) setAt(Number(hovered));
        }}
      >
        {groups.map((group, index) => (
          <Piece key={group.from} tokens={tokens} {...group} coloring={coloring} isActive={index === position} />
        ))}
      </div>
    </div>
  );
}

const Piece = memo(function Piece({ tokens, from, to, coloring, isActive }: { tokens: Tokens; from: number; to: number; coloring: TokenColoring; isActive: boolean }) {
  const shade = shadeOf(tokens, from, coloring);
  const text = tokens.pieces === null
    ? tokens.ids.slice(from, to).map((id) => `${id} `).join("")
    : visibleText(visiblePiece(tokens.pieces.slice(from, to).join("")));
  return (
    <span
      data-token={from} data-sampled={tokens.mask[from] === 1} data-special={tokens.special.includes(from)} data-active={isActive} className={classes.token}
      style={shade === null ? undefined : { background: `color-mix(in srgb, var(${shade.hue}) ${Math.round(8 + shade.strength * 62)}%, transparent)` }}
    >
      {text}
    </span>
  );
});

function Readout({ tokens, at }: { tokens: Tokens; at: number }) {
  const gap = gapOf(tokens, at);
  const turn = tokens.turn_starts.findLastIndex((start) => start <= tokens.start + at);
  const facts: [string, string][] = [
    ["token", formatCount(tokens.start + at)],
    ["turn", turn < 0 ? "prompt" : String(turn)],
    ["id", String(tokens.ids[at] ?? ABSENT)],
    ["text", tokens.pieces === null ? ABSENT : JSON.stringify(visibleText(tokens.pieces[at] ?? ""))],
    ["mask", tokens.mask[at] === 1 ? "1, sampled" : "0, not sampled"],
    ["log μ", number(tokens.logprobs[at])],
    ["log π", number(tokens.trainer?.[at])],
    ["gap", number(gap)],
    ["weights", tokens.versions[at] == null ? ABSENT : `v${tokens.versions[at]}`],
  ];
  return (
    <dl className={classes.readout} id="token-readout" aria-live="polite">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function number(value: number | null | undefined): string {
  return value == null ? ABSENT : value.toFixed(4).replace("-", "−");
}

function Pager({ from, tokens }: { from: number; tokens: Tokens }) {
  const to = from + tokens.ids.length;
  return (
    <p className={classes.pager}>
      {from > 0 && <Link from="/trajectories/$trajectory" search={(old) => ({ ...old, turn: undefined, token: from - TOKENS_AT_ONCE })} resetScroll={false}>← Earlier</Link>}
      <span>
        {formatCount(from)} to {formatCount(to - 1)} of {formatCount(tokens.length)}
      </span>
      {to < tokens.length && <Link from="/trajectories/$trajectory" search={(old) => ({ ...old, turn: undefined, token: to })} resetScroll={false}>Later →</Link>}
    </p>
  );
}
