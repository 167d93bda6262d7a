import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type TextPart, textQuery } from "../../api/inspector";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyButton } from "../../components/CopyButton";
import { formatBytes, formatCount } from "../../lib/format";
import { codePoints } from "../../lib/textRows";
import classes from "./Body.module.css";
import { VirtualText } from "./VirtualText";

type Props = {
  label: string;
  /** As much of it as came with the turn. */
  text: string;
  /** Characters of the whole. */
  length: number;
  of: { trajectory: number; attempt: number; turn: number; part: TextPart };
};

/** A body of a turn: short ones as they are, long ones by parts, and always with how long the whole is. */
export function Body({ label, text, length, of }: Props) {
  const [isOpen, setOpen] = useState(false);
  if (text !== "" && codePoints(text) >= length) return <CodeBlock label={label} text={text} />;
  return (
    <>
      {text !== "" && !isOpen && <CodeBlock label={label} text={text} />}
      {isOpen ? <Parts label={label} of={of} /> : (
        <button type="button" className={classes.more} onClick={() => setOpen(true)}>
          {text === "" ? `Show ${label}: ${formatBytes(length)}` : `The first ${formatBytes(text.length)} of ${formatBytes(length)}. Show ${formatBytes(length)}`}
        </button>
      )}
    </>
  );
}

function Parts({ label, of }: Pick<Props, "label" | "of">) {
  const parts = useInfiniteQuery(textQuery(of.trajectory, of.attempt, of.turn, of.part));
  const pages = parts.data?.pages ?? [];
  const text = pages.map((page) => page.text).join("");
  const length = pages[0]?.length ?? 0;
  if (parts.isError) return <p className={classes.note}>It could not be loaded: {parts.error.message}</p>;
  if (pages.length === 0) return <p className={classes.note}>Loading…</p>;
  return (
    <div>
      <VirtualText label={label} text={text} />
      <p className={classes.note}>
        {parts.hasNextPage ? `${formatCount(text.length)} of ${formatCount(length)} characters` : `All ${formatCount(length)} characters`}
        {parts.hasNextPage && (
          <button
            type="button" className={classes.load} disabled={parts.isFetchingNextPage}
            onClick={() => {
              parts.fetchNextPage().catch(() => undefined);
            }}
          >
            {parts.isFetchingNextPage ? "Loading…" : "Load more"}
          </button>
        )}
        <CopyButton text={text} label={`Copy what is loaded of ${label}`} />
      </p>
    </div>
  );
}
