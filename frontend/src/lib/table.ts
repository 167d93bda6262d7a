/** What a table does with its rows and columns, apart from drawing them. */

export type Key = string | number;

/**
 * The rows of a reader who is at work in a live table: what they see stays where it is.
 *
 * Rows that were `held` keep their place and take their new values; what came in among them is counted, not shown; what follows the last
 * of them (the next page) is appended.
 */
export function holdRows<Row>(held: readonly Row[], rows: readonly Row[], keyOf: (row: Row) => Key): { rows: Row[]; numNew: number } {
  const heldKeys = new Set(held.map(keyOf));
  const byKey = new Map(rows.map((row) => [keyOf(row), row]));
  const last = rows.findLastIndex((row) => heldKeys.has(keyOf(row)));
  const isNew = (row: Row) => !heldKeys.has(keyOf(row));
  return {
    rows: [...held.map((row) => byKey.get(keyOf(row)) ?? row), ...(last < 0 ? [] : rows.slice(last + 1).filter(isNew))],
    numNew: (last < 0 ? rows : rows.slice(0, last)).filter(isNew).length,
  };
}

/** The columns that are shown: the first always, then those named in `cols` in that order, or all that are no extras. */
export function shownColumns<Column extends { id: string; isExtra?: boolean | undefined }>(columns: readonly Column[], cols: string | undefined): Column[] {
  if (cols === undefined) return columns.filter((column, index) => index === 0 || column.isExtra !== true);
  const named = cols.split(",").flatMap((id) => columns.slice(1).find((column) => column.id === id) ?? []);
  return [...columns.slice(0, 1), ...new Set(named)];
}

/** `cols` with a column shown or hidden; undefined again where that is the default set. */
export function withColumn(columns: readonly { id: string; isExtra?: boolean | undefined }[], cols: string | undefined, id: string): string | undefined {
  const shown = shownColumns(columns, cols).slice(1).map((column) => column.id);
  const next = shown.includes(id)
    ? shown.filter((one) => one !== id)
    : columns.slice(1).map((column) => column.id).filter((one) => one === id || shown.includes(one));
  const usual = shownColumns(columns, undefined).slice(1).map((column) => column.id);
  return next.join() === usual.join() ? undefined : next.join();
}

/** A click on a header: the order that is most useful first, then the other one, then none. */
export function nextSort(sort: string | undefined, key: string, isNumeric: boolean): string | undefined {
  const first = isNumeric ? `-${key}` : key;
  const second = isNumeric ? key : `-${key}`;
  if (sort === first) return second;
  return sort === second ? undefined : first;
}

/** What a click on a checkbox selects: the one row, or with shift all from the row that was clicked before. */
export function withSelection(selected: readonly Key[], keys: readonly Key[], clicked: Key, from: Key | null): Key[] {
  const isOn = !selected.includes(clicked);
  const ends = [keys.indexOf(from ?? clicked), keys.indexOf(clicked)].sort((a, b) => a - b);
  const range = ends[0] === -1 ? [clicked] : keys.slice(ends[0], (ends[1] ?? 0) + 1);
  const others = selected.filter((key) => !range.includes(key));
  return isOn ? [...others, ...range] : others;
}
