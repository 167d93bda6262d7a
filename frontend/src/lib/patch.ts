/** A unified diff as files and numbered lines. Read by the counts of its hunk headers, so no content can pass for a header. */

export type DiffLine = { kind: "context" | "added" | "removed" | "note"; old: number | null; new: number | null; text: string };
export type DiffFile = {
  name: string;
  /** "new file", "deleted", "mode changed", "binary". */
  states: string[];
  hunks: { header: string; lines: DiffLine[] }[];
  numAdded: number;
  numRemoved: number;
};
export type Diff = { notes: string[]; files: DiffFile[] };

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

export function parsePatch(text: string): Diff {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const diff: Diff = { notes: [], files: [] };
  let file: DiffFile | undefined;
  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i] ?? "";
    if (line.startsWith("diff --git ")) {
      file = { name: nameOf(line), states: [], hunks: [], numAdded: 0, numRemoved: 0 };
      diff.files.push(file);
    } else if (file === undefined) diff.notes.push(line.replace(/^# /, ""));
    else if (HUNK.test(line)) i = readHunk(lines, i, file);
    else if (line.startsWith("+++ ") && line !== "+++ /dev/null") file.name = unprefixed(line.slice(4));
    else if (line.startsWith("--- ") && line !== "--- /dev/null" && file.hunks.length === 0) file.name = unprefixed(line.slice(4));
    else file.states.push(...stateOf(line));
  }
  return diff;
}

/** Returns the index of the hunk's last line. */
function readHunk(lines: readonly string[], at: number, file: DiffFile): number {
  const header = lines[at] ?? "";
  const [, oldStart = "0", oldCount = "1", newStart = "0", newCount = "1"] = HUNK.exec(header) ?? [];
  let [oldLine, newLine, oldLeft, newLeft] = [Number(oldStart), Number(newStart), Number(oldCount), Number(newCount)];
  const hunk: DiffFile["hunks"][number] = { header, lines: [] };
  file.hunks.push(hunk);
  let i = at + 1;
  for (; i < lines.length; i += 1) {
    const line = lines[i] ?? "";
    const sign = line.charAt(0);
    const text = line.slice(1);
    if (sign === "\\") hunk.lines.push({ kind: "note", old: null, new: null, text: text.trim() });
    else if (oldLeft <= 0 && newLeft <= 0) break;
    else if (sign === "-") {
      hunk.lines.push({ kind: "removed", old: oldLine, new: null, text });
      oldLine += 1;
      oldLeft -= 1;
      file.numRemoved += 1;
    } else if (sign === "+") {
      hunk.lines.push({ kind: "added", old: null, new: newLine, text });
      newLine += 1;
      newLeft -= 1;
      file.numAdded += 1;
    } else {
      hunk.lines.push({ kind: "context", old: oldLine, new: newLine, text });
      oldLine += 1;
      newLine += 1;
      oldLeft -= 1;
      newLeft -= 1;
    }
  }
  return i - 1;
}

function stateOf(line: string): string[] {
  if (line.startsWith("new file")) return ["new file"];
  if (line.startsWith("deleted file")) return ["deleted"];
  if (line.startsWith("new mode")) return ["mode changed"];
  if (line.startsWith("Binary files")) return ["binary, not shown"];
  return line.startsWith("# ") ? [line.slice(2)] : [];
}

/** From `diff --git a/x b/x`: the halves are equal but for their letter. */
function nameOf(line: string): string {
  const names = line.slice("diff --git ".length);
  return unprefixed(names.slice(names.length / 2 + 1));
}

function unprefixed(name: string): string {
  return name.replace(/^("?)[ab]\//, "$1");
}
