import { Fragment } from "react";
import { ScrollRegion } from "../../components/ScrollRegion";

import { type DiffLine, diffLines, hunks } from "../../lib/diff";
import { formatCount, visibleText } from "../../lib/format";
import classes from "./Diff.module.css";

const MARK: Record<DiffLine["kind"], string> = { same: " ", removed: "−", added: "+" };

/** Two texts by lines; long stretches that stay are folded. */
export function Diff({ before, after, label, same }: { before: string; after: string; label: string; same: string }) {
  const lines = diffLines(before, after);
  const count = (kind: DiffLine["kind"]) => lines.filter((line) => line.kind === kind).length;
  if (count("added") + count("removed") === 0) return <p className={classes.lead}>{same}</p>;
  return (
    <>
      <p className={classes.lead}>
        {formatCount(count("added"))} {count("added") === 1 ? "line" : "lines"} added, {formatCount(count("removed"))} removed
      </p>
      <ScrollRegion className={classes.diff} label={label}>
        <table className={classes.table}>
          <tbody>
            {hunks(lines).map((hunk, index) => (
              <Fragment key={index}>
                {hunk.numHidden > 0 && (
                  <tr className={classes.hidden}>
                    <td colSpan={4}>{formatCount(hunk.numHidden)} lines as before</td>
                  </tr>
                )}
                {hunk.lines.map((line) => (
                  <tr key={`${line.before ?? ""}:${line.after ?? ""}`} data-kind={line.kind}>
                    <td data-align="right">{line.before}</td>
                    <td data-align="right">{line.after}</td>
                    <td className={classes.mark}>{MARK[line.kind]}</td>
                    <td>{visibleText(line.text)}</td>
                  </tr>
                ))}
              </Fragment>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </>
  );
}
