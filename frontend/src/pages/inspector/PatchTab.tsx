import { useQuery } from "@tanstack/react-query";
import { memo, useState } from "react";

import { patchQuery } from "../../api/inspector";
import { CopyButton } from "../../components/CopyButton";
import { EmptyState } from "../../components/EmptyState";
import { Loading } from "../../components/Loading";
import { ScrollRegion } from "../../components/ScrollRegion";
import { formatCount, visibleText } from "../../lib/format";
import { type DiffFile, type DiffLine, parsePatch } from "../../lib/patch";
import { ATTEMPT_STATUS } from "../../lib/status";
import { Fault } from "./Fault";
import classes from "./PatchTab.module.css";
import type { TabProps } from "./tabs";

/** Lines of a file that are shown at once; more are a click away. */
const LINES_AT_ONCE = 400;
/** Files that begin unfolded. */
const OPEN_FILES = 10;

/** What the agent changed of the task's files, as it was graded. */
export function PatchTab({ trajectory, attempt }: TabProps) {
  const query = useQuery(patchQuery(trajectory.id, attempt.number));
  if (query.isError) return <Fault query={query} />;
  if (query.data === undefined) return <Loading rows={6} />;
  const { patch, is_cut } = query.data;
  const diff = parsePatch(patch);
  if (diff.files.length === 0) {
    return (
      <EmptyState title={diff.notes.length > 0 ? "No patch" : "No changes"}>
        {diff.notes.join(" ") ||
          (attempt.status === "completed"
            ? "The agent left the task's files as they were, or the attempt is older than the recording of patches."
            : `A patch is made when an attempt is graded. Attempt ${attempt.number}: ${ATTEMPT_STATUS[attempt.status].meaning}`)}
      </EmptyState>
    );
  }
  const added = diff.files.reduce((sum, file) => sum + file.numAdded, 0);
  const removed = diff.files.reduce((sum, file) => sum + file.numRemoved, 0);
  return (
    <div className={classes.page}>
      <header className={classes.summary}>
        <span>
          {diff.files.length} {diff.files.length === 1 ? "file" : "files"} against the task’s base, {formatCount(added)} lines added, {formatCount(removed)} removed
        </span>
        <CopyButton text={patch} label="Copy the patch" />
      </header>
      {is_cut && <p className={classes.note}>The patch is larger than 256 KiB: what follows is its beginning.</p>}
      {diff.notes.map((note) => <p key={note} className={classes.note}>{visibleText(note)}</p>)}
      {diff.files.map((file, index) => <File key={`${index} ${file.name}`} file={file} isOpenAtFirst={index < OPEN_FILES} />)}
    </div>
  );
}

const File = memo(function File({ file, isOpenAtFirst }: { file: DiffFile; isOpenAtFirst: boolean }) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const [limit, setLimit] = useState(LINES_AT_ONCE);
  const total = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  const hunks = cutHunks(file.hunks, limit);
  return (
    <section className={classes.file}>
      <h2>
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span className={classes.fold} aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
          <code>{visibleText(file.name)}</code>
          {file.states.map((state) => <span key={state} className={classes.state}>{state}</span>)}
          <span className={classes.added}>+{file.numAdded}</span>
          <span className={classes.removed}>−{file.numRemoved}</span>
        </button>
      </h2>
      {isOpen && hunks.length > 0 && (
        <ScrollRegion className={classes.scroller} label={`changes of ${visibleText(file.name)}`}>
          <table className={classes.lines}>
            <tbody>
              {hunks.map((hunk) => (
                <Hunk key={hunk.header} {...hunk} />
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
      {isOpen && total > limit && (
        <button type="button" className={classes.more} onClick={() => setLimit(limit + 10 * LINES_AT_ONCE)}>
          Show {formatCount(Math.min(total - limit, 10 * LINES_AT_ONCE))} more of {formatCount(total)} lines
        </button>
      )}
    </section>
  );
});

function Hunk({ header, lines }: DiffFile["hunks"][number]) {
  return (
    <>
      <tr className={classes.hunk}>
        <td colSpan={4}>{header}</td>
      </tr>
      {lines.map((line, i) => (
        <tr key={i} data-kind={line.kind}>
          <td className={classes.number}>{line.old}</td>
          <td className={classes.number}>{line.new}</td>
          <td className={classes.sign} aria-label={line.kind}>{SIGN[line.kind]}</td>
          <td className={classes.text}>{visibleText(line.text.slice(0, 4_000))}{line.text.length > 4_000 && ` … ${formatCount(line.text.length)} characters`}</td>
        </tr>
      ))}
    </>
  );
}

const SIGN: Record<DiffLine["kind"], string> = { context: "", added: "+", removed: "−", note: "⚠" };

function cutHunks(hunks: DiffFile["hunks"], limit: number): DiffFile["hunks"] {
  let left = limit;
  const shown: DiffFile["hunks"] = [];
  for (const hunk of hunks) {
    if (left <= 0) break;
    shown.push({ ...hunk, lines: hunk.lines.slice(0, left) });
    left -= hunk.lines.length;
  }
  return shown;
}
