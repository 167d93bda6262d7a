import { Button, Checkbox, TextInput } from "@mantine/core";
import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type MouseEvent, type ReactNode, type SyntheticEvent, useEffect, useRef, useState } from "react";

import { LINES_AT_ONCE, type LogLine, logQuery, logSearchQuery } from "../../api/inspector";
import { EmptyState } from "../../components/EmptyState";
import { Loading } from "../../components/Loading";
import { ScrollRegion } from "../../components/ScrollRegion";
import { formatCount, visibleText } from "../../lib/format";
import { hitAfter, lineOf, logText, splitByHit } from "../../lib/log";
import { Fault } from "./Fault";
import classes from "./LogsTab.module.css";
import { inspectorRoute } from "./route";
import type { TabProps } from "./tabs";

const ROW_PX = 24;

/** Commands, outputs and verifier as one numbered log. Only the lines in view are fetched. */
export function LogsTab({ trajectory, attempt, onSelect }: TabProps) {
  const search = inspectorRoute.useSearch();
  const navigate = inspectorRoute.useNavigate();
  const { line, to_line: toLine, find: q = "", regex } = search;
  const head = useQuery(logQuery(trajectory.id, attempt.number, 1));
  const found = useQuery(logSearchQuery(trajectory.id, attempt.number, q, regex === "true"));
  const hits = found.data?.lines.map((hit) => hit.number) ?? [];
  const goLine = (number: number | undefined) => {
    if (number !== undefined) navigate({ search: (old) => ({ ...old, line: number, to_line: undefined }), resetScroll: false, replace: true }).catch(() => undefined);
  };
  if (head.isError) return <Fault query={head} />;
  if (head.data === undefined) return <Loading rows={8} />;
  const { total } = head.data;
  if (total === 0) return <EmptyState title="No log">No command has run yet; lines appear here as turns are stored.</EmptyState>;
  const onLine = (event: MouseEvent, number: number) => {
    const isRange = event.shiftKey && line !== undefined && number > line;
    navigate({ search: (old) => ({ ...old, line: isRange ? line : number, to_line: isRange ? number : undefined }), resetScroll: false, replace: true }).catch(() => undefined);
  };

  return (
    <div className={classes.page}>
      <SearchBar
        key={`${q} ${regex}`} q={q} isRegex={regex === "true"} total={found.data?.num_hits ?? null} error={found.error?.message} hits={hits} line={line} goLine={goLine}
        onSearch={(text, isRegex) => {
          navigate({ search: (old) => ({ ...old, find: text || undefined, regex: isRegex ? ("true" as const) : undefined }), resetScroll: false }).catch(() => undefined);
        }}
      />
      <Lines trajectory={trajectory.id} attempt={attempt.number} total={total} from={line} to={toLine ?? line} hits={new Set(hits)} q={regex === "true" ? "" : q} onLine={onLine} onSelect={onSelect} />
      <Footer trajectory={trajectory.id} attempt={attempt.number} total={total} from={line} to={toLine ?? line} />
    </div>
  );
}

type SearchProps = {
  q: string;
  isRegex: boolean;
  total: number | null;
  error: string | undefined;
  hits: readonly number[];
  line: number | undefined;
  goLine: (line: number | undefined) => void;
  onSearch: (q: string, isRegex: boolean) => void;
};

function SearchBar({ q, isRegex, total, error, hits, line, goLine, onSearch }: SearchProps) {
  const [text, setText] = useState(q);
  const [isPattern, setPattern] = useState(isRegex);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (text === q && isPattern === isRegex) goLine(hitAfter(hits, line ?? 0));
    else onSearch(text, isPattern);
  };
  const at = line === undefined ? 0 : hits.indexOf(line) + 1;
  return (
    <form className={classes.search} role="search" onSubmit={submit}>
      <TextInput aria-label="Search the log" placeholder="Search the whole log" value={text} onChange={(event) => setText(event.currentTarget.value)} error={error} w={280} />
      <Checkbox label="Pattern" checked={isPattern} onChange={(event) => setPattern(event.currentTarget.checked)} />
      <Button type="submit" variant="default">Search</Button>
      {q !== "" && total !== null && (
        <span className={classes.hits} role="status">
          {total === 0 ? "no line matches" : `${at === 0 ? "–" : formatCount(at)} of ${formatCount(total)}${total > hits.length ? `, the first ${formatCount(hits.length)} can be stepped through` : ""}`}
          <button type="button" aria-label="Previous hit" disabled={hits.length === 0} onClick={() => goLine(hits.findLast((hit) => hit < (line ?? Infinity)) ?? hits.at(-1))}>↑</button>
          <button type="button" aria-label="Next hit" disabled={hits.length === 0} onClick={() => goLine(hitAfter(hits, line ?? 0))}>↓</button>
        </span>
      )}
    </form>
  );
}

type LinesProps = {
  trajectory: number;
  attempt: number;
  total: number;
  from: number | undefined;
  to: number | undefined;
  hits: ReadonlySet<number>;
  q: string;
  onLine: (event: MouseEvent, line: number) => void;
  onSelect: (turn: number) => void;
};

function Lines({ trajectory, attempt, total, from, to, hits, q, onLine, onSelect }: LinesProps) {
  const scroller = useRef<HTMLDivElement>(null);
  // eslint-disable-next-line react-hooks/incompatible-library -- no compiler here; nothing of it is passed on
  const virtualizer = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 40,
    initialRect: { width: 800, height: 640 },
  });
  const items = virtualizer.getVirtualItems();
  const pages = [...new Set(items.map((item) => item.index - (item.index % LINES_AT_ONCE) + 1))];
  const chunks = useQueries({ queries: pages.map((page) => logQuery(trajectory, attempt, page)) });
  const lines = new Map<number, LogLine>(chunks.flatMap((chunk) => chunk.data?.lines ?? []).map((row) => [row.number, row]));

  useEffect(() => {
    if (from !== undefined) virtualizer.scrollToIndex(from - 1, { align: "center" });
  }, [from, virtualizer]);

  return (
    <ScrollRegion ref={scroller} className={classes.scroller} label={`Log, ${formatCount(total)} lines`}>
      <ol className={classes.lines} style={{ height: virtualizer.getTotalSize() }}>
        {items.map((item) => {
          const number = item.index + 1;
          const row = lines.get(number);
          return (
            <li
              key={number} className={classes.line} data-part={row?.part} data-hit={hits.has(number)}
              data-selected={from !== undefined && to !== undefined && number >= from && number <= to} style={{ transform: `translateY(${item.start}px)` }}
            >
              <button type="button" className={classes.number} onClick={(event) => onLine(event, number)} title="Link to this line; with Shift, to a range">
                {number}
              </button>
              {row === undefined ? <span className={classes.loading}>…</span> : <LineText row={row} q={hits.has(number) ? q : ""} onSelect={onSelect} />}
            </li>
          );
        })}
      </ol>
    </ScrollRegion>
  );
}

function LineText({ row, q, onSelect }: { row: LogLine; q: string; onSelect: (turn: number) => void }) {
  const { turn } = row;
  return (
    <>
      {turn === null ? <span className={classes.turn}>verifier</span> : (
        <button type="button" className={classes.turn} onClick={() => onSelect(turn)} title={`To turn ${turn}`}>
          {row.part === "command" ? `${turn} $` : turn}
        </button>
      )}
      <code>
        {marked(row.text, q)}
        {row.length > row.text.length && <span className={classes.cut}> … the first {formatCount(row.text.length)} of {formatCount(row.length)} characters; the transcript has all</span>}
      </code>
    </>
  );
}

function marked(text: string, q: string): ReactNode {
  return splitByHit(text, q).map((part, i) => (i % 2 === 1 ? <mark key={i}>{visibleText(part)}</mark> : visibleText(part)));
}

function Footer({ trajectory, attempt, total, from, to }: Pick<LinesProps, "trajectory" | "attempt" | "total" | "from" | "to">) {
  const queryClient = useQueryClient();
  const [state, setState] = useState("");
  const collect = async (first: number, last: number) => {
    const lines: LogLine[] = [];
    for (let page = first - ((first - 1) % LINES_AT_ONCE); page <= last; page += LINES_AT_ONCE) {
      const answer = await queryClient.query({ ...logQuery(trajectory, attempt, page), staleTime: 60_000 });
      lines.push(...answer.lines.filter((row) => row.number >= first && row.number <= last));
      setState(`${formatCount(lines.length)} of ${formatCount(last - first + 1)} lines`);
    }
    return lines;
  };
  const copy = async () => {
    if (from === undefined || to === undefined) return;
    await navigator.clipboard.writeText(logText(await collect(from, to)));
    setState("copied");
  };
  const download = async () => {
    const text = logText(await collect(1, total));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = `trajectory-${trajectory}-attempt-${attempt}.log`;
    link.click();
    URL.revokeObjectURL(link.href);
    setState("saved");
  };
  const run = (work: () => Promise<void>) => {
    work().catch((error: unknown) => setState(error instanceof Error ? error.message : "It failed."));
  };
  return (
    <footer className={classes.footer}>
      <span>{formatCount(total)} lines</span>
      <Button variant="default" disabled={from === undefined} title={from === undefined ? "Choose a line by its number, a range with Shift" : undefined} onClick={() => run(copy)}>
        {from === undefined ? "Copy lines" : `Copy ${lineOf(from, to)}`}
      </Button>
      <Button variant="default" onClick={() => run(download)}>Download the log</Button>
      <span role="status">{state}</span>
    </footer>
  );
}
