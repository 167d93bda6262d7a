/**
 * The text of a recipe as a person keeps it, and edits of one key in it.
 *
 * An edit rewrites the lines of that key and no others, so comments and layout stay. Where a document's style does not
 * allow that (a flow mapping, a block scalar), the document is written anew; comments stay then too.
 */
import { type Document, isMap, isPair, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, stringify, visit } from "yaml";

/** As the server reads it: `yes` is true and must be quoted to be a word. */
const OPTIONS = { version: "1.1" } as const;

export type Path = readonly (string | number)[];
export type YamlError = { message: string; line: number; column: number };
export type Parsed = { value: unknown; error: null } | { value: undefined; error: YamlError };

/** What the text says, or where it stops being YAML (lines and columns count from 1). */
export function parseRecipe(text: string): Parsed {
  const lines = new LineCounter();
  const document = parseDocument(text, { ...OPTIONS, lineCounter: lines, prettyErrors: false });
  const [problem] = document.errors;
  if (problem === undefined) {
    const value: unknown = document.toJS();
    if (isRecord(value)) return { value, error: null };
    return { value: undefined, error: { message: "The recipe is empty or not a mapping.", line: 1, column: 1 } };
  }
  const { line, col } = lines.linePos(problem.pos[0]);
  return { value: undefined, error: { message: problem.message, line, column: col } };
}

/** The text with one key set, or taken out with `undefined`: the default counts again. */
export function withValue(text: string, path: Path, value: unknown): string {
  const document = parseDocument(text, OPTIONS);
  if (document.errors.length > 0) return text;
  return (value === undefined ? withoutKey(text, document, path) : withKey(text, document, path, value)) ?? rewritten(document, path, value);
}

/** The text with one item more at the end of a sequence. */
export function withItem(text: string, path: Path, item: unknown): string {
  const document = parseDocument(text, OPTIONS);
  const sequence = document.getIn(path, true);
  if (document.errors.length > 0) return text;
  const [first] = isSeq(sequence) && sequence.flow !== true ? sequence.items : [];
  if (!isSeq(sequence) || !hasRange(first)) {
    document.addIn(path, item);
    return String(document);
  }
  const column = columnOf(text, first.range[0]) - 2;
  return insertedAfter(text, contentEnd(text, sequence.items.at(-1)), indented(stringify([item], OPTIONS), column));
}

/** The text without one item of a sequence. */
export function withoutItem(text: string, path: Path, index: number): string {
  const document = parseDocument(text, OPTIONS);
  const sequence = document.getIn(path, true);
  if (!isSeq(sequence) || document.errors.length > 0) return text;
  const item = sequence.items[index];
  if (sequence.flow === true || sequence.items.length === 1 || !hasRange(item)) {
    document.deleteIn([...path, index]);
    return String(document);
  }
  return withoutLines(text, lineStart(text, item.range[0]), contentEnd(text, item));
}

/** Where a key is in the text: from its name to the end of its value; null where the text does not have it. */
export function rangeOf(text: string, path: Path): [number, number] | null {
  const document = parseDocument(text, OPTIONS);
  const pair = pairAt(document, path);
  if (pair !== null) {
    const { key, value } = pair;
    if (hasRange(key)) return [key.range[0], hasRange(value) ? value.range[1] : key.range[1]];
  }
  const node = document.getIn(path, true);
  return hasRange(node) ? [node.range[0], node.range[1]] : null;
}

/** "/stages/1/traces" → ["stages", 1, "traces"]. */
export function pathOf(pointer: string): Path {
  return pointer.split("/").filter((part) => part !== "").map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

function withKey(text: string, document: Document.Parsed, path: Path, value: unknown): string | null {
  const node = document.getIn(path, true);
  if (node !== undefined) return replaced(text, node, value);
  const key = path.at(-1);
  const parentPath = path.slice(0, -1);
  const parent = parentPath.length === 0 ? document.contents : document.getIn(parentPath, true);
  if (typeof key !== "string") return null;
  if (parent === undefined) return parentPath.length === 0 ? null : withKey(text, document, parentPath, { [key]: value });
  const last = isMap(parent) && parent.flow !== true ? parent.items.at(-1) : undefined;
  if (last === undefined || !hasRange(last.key)) return null;
  return insertedAfter(text, contentEnd(text, last), indented(stringify({ [key]: value }, OPTIONS), columnOf(text, last.key.range[0])));
}

/** Scalars on one line and flow sequences are replaced where they stand. */
function replaced(text: string, node: unknown, value: unknown): string | null {
  const isPlain = isScalar(node) ? node.type !== "BLOCK_FOLDED" && node.type !== "BLOCK_LITERAL" : isSeq(node) && node.flow === true;
  if (!isPlain || !hasRange(node)) return null;
  const [start, end] = node.range;
  const written = oneLine(value);
  if (written === null || text.slice(start, end).includes("\n")) return null;
  const gap = start > 0 && text[start - 1] === ":" ? " " : ""; // a key without a value has no space either
  return text.slice(0, start) + gap + written + text.slice(end);
}

function withoutKey(text: string, document: Document.Parsed, path: Path): string | null {
  const pair = pairAt(document, path);
  if (pair === null) return text;
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent) || parent.flow === true || !hasRange(pair.key)) return null;
  if (parent.items.length === 1) return path.length > 1 && typeof path.at(-2) === "string" ? withoutKey(text, document, path.slice(0, -1)) : null;
  const start = lineStart(text, pair.key.range[0]);
  if (text.slice(start, pair.key.range[0]).trim() !== "") return null; // "- kind: eval": the dash must stay
  return withoutLines(text, start, contentEnd(text, pair));
}

function rewritten(document: Document.Parsed, path: Path, value: unknown): string {
  if (value === undefined) {
    document.deleteIn(path);
    const parent = path.slice(0, -1);
    const left = parent.length > 0 ? document.getIn(parent, true) : undefined;
    if (isMap(left) && left.items.length === 0 && typeof parent.at(-1) === "string") document.deleteIn(parent);
  } else document.setIn(path, value);
  return String(document);
}

function pairAt(document: Document.Parsed, path: Path): Pair | null {
  const key = path.at(-1);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return null;
  return parent.items.find((pair) => isScalar(pair.key) && pair.key.value === key) ?? null;
}

/** Where the last character of a node's own content is, without comments and blank lines that follow. */
function contentEnd(text: string, node: unknown): number {
  let end = 0;
  const grow = (one: unknown) => {
    if (hasRange(one)) end = Math.max(end, one.range[1]);
  };
  if (isPair(node)) {
    grow(node.key);
    if (isNode(node.value)) visit(node.value, (_, inner) => grow(isMap(inner) || isSeq(inner) ? undefined : inner));
    if ((isMap(node.value) || isSeq(node.value)) && node.value.flow === true) grow(node.value);
  } else if (isNode(node)) {
    visit(node, (_, inner) => grow((isMap(inner) || isSeq(inner)) && inner.flow !== true ? undefined : inner));
  }
  while (end > 0 && /\s/.test(text[end - 1] ?? "")) end -= 1;
  return end;
}

function isNode(value: unknown): value is Node {
  return isMap(value) || isSeq(value) || isScalar(value);
}

function hasRange(node: unknown): node is { range: [number, number, number] } {
  return typeof node === "object" && node !== null && "range" in node && Array.isArray(node.range);
}

function isRecord(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function oneLine(value: unknown): string | null {
  const written = Array.isArray(value) ? JSON.stringify(value).replaceAll(",", ", ") : stringify(value, { ...OPTIONS, lineWidth: 0 }).trimEnd();
  return written.includes("\n") ? null : written;
}

function lineStart(text: string, position: number): number {
  return text.lastIndexOf("\n", position - 1) + 1;
}

function columnOf(text: string, position: number): number {
  return position - lineStart(text, position);
}

function insertedAfter(text: string, position: number, block: string): string {
  const lineEnd = text.indexOf("\n", position);
  return lineEnd === -1 ? `${text}\n${block}` : text.slice(0, lineEnd + 1) + block + text.slice(lineEnd + 1);
}

function withoutLines(text: string, start: number, position: number): string {
  const lineEnd = text.indexOf("\n", position);
  return text.slice(0, start) + (lineEnd === -1 ? "" : text.slice(lineEnd + 1));
}

function indented(block: string, columns: number): string {
  return block.replace(/^(?=.)/gm, " ".repeat(columns));
}
