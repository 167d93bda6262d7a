/** Differences of two texts by lines: what stays, what went, what came. */

export type DiffLine = { kind: "same" | "removed" | "added"; text: string; before: number | null; after: number | null };

/** Beyond so many cells of the table the middle is shown as replaced: a longest common subsequence is not worth the wait. */
const MAX_CELLS = 4_000_000;

/** Line numbers count from 1, as editors do. */
export function diffLines(before: string, after: string): DiffLine[] {
  const left = before.split("\n");
  const right = after.split("\n");
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head += 1;
  let tail = 0;
  while (tail < left.length - head && tail < right.length - head && left[left.length - 1 - tail] === right[right.length - 1 - tail]) tail += 1;

  const same = (count: number, from: number, to: number): DiffLine[] =>
    Array.from({ length: count }, (_, i) => ({ kind: "same", text: left[from + i] ?? "", before: from + i + 1, after: to + i + 1 }));
  return [
    ...same(head, 0, 0),
    ...middle(left.slice(head, left.length - tail), right.slice(head, right.length - tail), head),
    ...same(tail, left.length - tail, right.length - tail),
  ];
}

function middle(left: string[], right: string[], offset: number): DiffLine[] {
  const lines: DiffLine[] = [];
  const remove = (i: number) => lines.push({ kind: "removed", text: left[i] ?? "", before: offset + i + 1, after: null });
  const add = (j: number) => lines.push({ kind: "added", text: right[j] ?? "", before: null, after: offset + j + 1 });
  const lengths = left.length * right.length > MAX_CELLS ? null : commonLengths(left, right);
  const width = right.length + 1;
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && lengths !== null && left[i] === right[j]) {
      lines.push({ kind: "same", text: left[i] ?? "", before: offset + i + 1, after: offset + j + 1 });
      i += 1;
      j += 1;
    } else if (i < left.length && (j === right.length || lengths === null || at(lengths, (i + 1) * width + j) >= at(lengths, i * width + j + 1))) {
      remove(i);
      i += 1;
    } else {
      add(j);
      j += 1;
    }
  }
  return lines;
}

/** Lengths of the longest common subsequence of every pair of tails, row by row. */
function commonLengths(left: string[], right: string[]): Uint32Array {
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        left[i] === right[j]
          ? at(lengths, (i + 1) * width + j + 1) + 1
          : Math.max(at(lengths, (i + 1) * width + j), at(lengths, i * width + j + 1));
    }
  }
  return lengths;
}

function at(values: Uint32Array, index: number): number {
  return values[index] ?? 0;
}

export type Hunk = { lines: DiffLine[]; numHidden: number };

/** Changes with some lines around them; `numHidden` lines that stay lie before a hunk. The last hunk may be empty: what follows the changes. */
export function hunks(lines: readonly DiffLine[], context = 3): Hunk[] {
  const changed = lines.flatMap((line, index) => (line.kind === "same" ? [] : [index]));
  const isShown = lines.map(() => false);
  for (const index of changed) {
    for (let near = Math.max(0, index - context); near <= Math.min(lines.length - 1, index + context); near += 1) isShown[near] = true;
  }
  const found: Hunk[] = [];
  let numHidden = 0;
  let current: DiffLine[] = [];
  lines.forEach((line, index) => {
    if (isShown[index]) {
      current.push(line);
      return;
    }
    if (current.length > 0) {
      found.push({ lines: current, numHidden });
      current = [];
      numHidden = 0;
    }
    numHidden += 1;
  });
  if (current.length > 0 || numHidden > 0) found.push({ lines: current, numHidden });
  return found;
}
