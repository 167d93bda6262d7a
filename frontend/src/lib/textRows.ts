/** Rows of a text for a virtual list: lines, and long lines broken, so that one line of a megabyte is many small rows. */

export type TextRow = { text: string; /** Number of the line from 1, or null where a row goes on with a line. */ line: number | null };

export function textRows(text: string, columns: number): TextRow[] {
  const rows: TextRow[] = [];
  let line = 0;
  for (let start = 0; start <= text.length; ) {
    const newline = text.indexOf("\n", start);
    const end = newline === -1 ? text.length : newline;
    if (end === start && newline === -1 && line > 0) break; // a last newline ends a line, it begins none
    line += 1;
    for (let at = start, isFirst = true; isFirst || at < end; isFirst = false) {
      const next = breakAt(text, at, Math.min(end, at + columns));
      rows.push({ text: text.slice(at, next), line: isFirst ? line : null });
      at = next;
    }
    start = end + 1;
  }
  return rows;
}

/** Not between the halves of a character. */
function breakAt(text: string, start: number, end: number): number {
  const unit = text.charCodeAt(end);
  return unit >= 0xdc00 && unit <= 0xdfff && end - 1 > start ? end - 1 : end;
}

/** Characters as the database counts them: a pair of UTF-16 units is one. */
export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xdc00 && unit <= 0xdfff) count -= 1;
  }
  return count;
}
