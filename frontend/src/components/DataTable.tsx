import {
  type ColumnDef, createSortedRowModel, rowSortingFeature, type SortingState, sortFn_alphanumeric, sortFn_basic, tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { formatCount } from "../lib/format";
import { holdRows, type Key, nextSort, shownColumns, withSelection } from "../lib/table";
import { useKeys } from "../lib/useKeys";
import classes from "./DataTable.module.css";
import { DataTableColumns } from "./DataTableColumns";

export type Column<Row> = {
  id: string;
  header: string;
  /** Shown in the header, so that cells hold figures only. */
  unit?: string;
  /** What the figure is and over which population; shown on hover. */
  meaning?: string;
  align?: "left" | "right";
  width: number;
  cell: (row: Row) => ReactNode;
  /** Sorts the loaded rows. Give it only where the whole list is loaded. */
  sortValue?: (row: Row) => number | string | null;
  /** The word of `?sort=` for it: the server sorts the whole list. */
  sortKey?: string;
  /** Hidden until the reader chooses it. */
  isExtra?: boolean;
};

type Props<Row> = {
  label: string;
  /** Keep them stable between renders: rows are drawn again when they change. */
  columns: Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => Key;
  /** What Enter and a click open. */
  onOpen?: (row: Row) => void;
  empty: ReactNode;
  hasMore?: boolean;
  isLoadingMore?: boolean;
  onMore?: () => void;
  /** Sorted by the server: "-duration". */
  sort?: string | undefined;
  onSort?: (sort: string | undefined) => void;
  /** Ids of the shown columns with commas; undefined is the default set. */
  cols?: string | undefined;
  onCols?: (cols: string | undefined) => void;
  selected?: readonly Key[];
  onSelected?: (keys: Key[]) => void;
  /** Which list this is (its filters and order). Given, rows that come in are announced instead of shifting what the reader is at. */
  live?: string;
  /** Totals, exports: what stands above the table. */
  bar?: ReactNode;
};

const ROW_PX = 32;
/** A reader counts fewer rows than this at a glance. */
const MANY = 12;
const SELECT_PX = 36;
const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
});

/**
 * A table of any length: only the rows in view exist in the page. Arrows, J and K move, Enter opens, X selects.
 * Numbers align right with their unit in the header.
 */
export function DataTable<Row extends object>({
  label, columns: all, rows: incoming, rowKey, onOpen, empty, hasMore = false, isLoadingMore = false, onMore, sort, onSort, cols, onCols,
  selected, onSelected, live, bar,
}: Props<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [sorting, setSorting] = useState<SortingState>([]);
  const [active, setActive] = useState(0);
  const columns = useMemo(() => shownColumns(all, cols), [all, cols]);
  const { rows, numNew, hold, release, showNew } = useHeldRows(incoming, rowKey, live);

  const definitions = useMemo<ColumnDef<typeof features, Row>[]>(
    () =>
      columns.map((column) => ({
        id: column.id,
        accessorFn: column.sortValue ?? (() => null),
        enableSorting: column.sortValue !== undefined,
        sortFn: "basic",
        sortUndefined: "last",
      })),
    [columns],
  );
  const data = useMemo(() => [...rows], [rows]);
  const table = useTable({
    features, columns: definitions, data, state: { sorting }, onSortingChange: setSorting,
    getRowId: (row) => String(rowKey(row)),
  });
  const sorted = table.getRowModel().rows;

  // eslint-disable-next-line react-hooks/incompatible-library -- no compiler here; nothing of it is passed on
  const virtualizer = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => sorted[index]?.id ?? index,
    overscan: 12,
    // Tests and the first paint have no layout yet; without this there would be no row to see.
    initialRect: { width: 1200, height: 640 },
  });
  const items = virtualizer.getVirtualItems();
  const first = items[0];
  const last = items.at(-1);
  const isNearEnd = last !== undefined && last.index >= sorted.length - 20;
  const numColumns = columns.length + (onSelected === undefined ? 0 : 1);

  useEffect(() => {
    if (isNearEnd && hasMore && !isLoadingMore) onMore?.();
  }, [isNearEnd, hasMore, isLoadingMore, onMore]);

  const { toggle, toggleAll } = useSelection(() => sorted.map((row) => rowKey(row.original)), selected, onSelected);
  const open = useLatest((row: Row) => onOpen?.(row));
  const select = useLatest((key: Key, isRange: boolean) => toggle(key, isRange));

  const move = (to: number) => {
    const index = Math.max(0, Math.min(sorted.length - 1, to));
    setActive(index);
    virtualizer.scrollToIndex(index);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus());
  };
  // From anywhere on the page of a list; within the table the rows' own keys answer.
  useKeys(live === undefined ? {} : { j: () => move(active), k: () => move(active) });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLElement && event.target.closest("button, input, select")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = sorted[active];
    if (event.key === "ArrowDown" || event.key === "j") move(active + 1);
    else if (event.key === "ArrowUp" || event.key === "k") move(active - 1);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(sorted.length - 1);
    else if (event.key === "Enter" && !(event.target instanceof HTMLAnchorElement)) {
      if (row !== undefined) onOpen?.(row.original);
    } else if (event.key.toLowerCase() === "x" && onSelected !== undefined) {
      if (row !== undefined) toggle(rowKey(row.original), event.shiftKey);
    } else return;
    event.preventDefault();
  };
  const sortBy = (column: Column<Row>) => {
    if (column.sortKey !== undefined) onSort?.(nextSort(sort, column.sortKey, column.align === "right"));
    else table.getColumn(column.id)?.toggleSorting();
  };
  const directionOf = (column: Column<Row>) => {
    if (column.sortKey !== undefined && sort !== undefined) {
      if (sort === column.sortKey) return "ascending";
      if (sort === `-${column.sortKey}`) return "descending";
    }
    return sorting[0]?.id === column.id ? (sorting[0].desc ? "descending" : "ascending") : undefined;
  };

  return (
    <>
      {(bar !== undefined || onCols !== undefined) && (
        <div className={classes.bar}>
          <div className={classes.totals}>{bar}</div>
          {onCols !== undefined && <DataTableColumns columns={all} cols={cols} onCols={onCols} />}
        </div>
      )}
      {rows.length === 0 ? empty : (
        <div className={classes.frame}>
          {numNew > 0 && (
            <button
              type="button" className={classes.news}
              onClick={() => {
                showNew();
                virtualizer.scrollToIndex(0);
              }}
            >
              {formatCount(numNew)} new {numNew === 1 ? "row" : "rows"} · show
            </button>
          )}
          {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions -- keys bubble up from the focusable rows */}
          <div
            className={classes.scroller} ref={scroller} onKeyDown={onKeyDown} onFocus={hold} onPointerMove={hold} onScroll={hold}
            onPointerLeave={() => release(scroller.current)} onBlur={() => release(scroller.current)}
          >
            <table className={classes.table} aria-label={label} aria-rowcount={hasMore ? -1 : sorted.length + 1} data-selects={onSelected !== undefined}>
              <colgroup>
                {onSelected !== undefined && <col style={{ width: SELECT_PX }} />}
                {columns.map((column) => (
                  <col key={column.id} style={{ width: column.width }} />
                ))}
              </colgroup>
              <thead>
                <tr>
                  {onSelected !== undefined && (
                    <th scope="col">
                      <input
                        type="checkbox" aria-label="Select all loaded rows" onChange={toggleAll}
                        checked={(selected?.length ?? 0) > 0 && sorted.every((row) => selected?.includes(rowKey(row.original)))}
                      />
                    </th>
                  )}
                  {columns.map((column) => (
                    <Header
                      key={column.id} column={column} direction={directionOf(column)}
                      {...(column.sortValue !== undefined || (column.sortKey !== undefined && onSort !== undefined) ? { onSort: () => sortBy(column) } : {})}
                    />
                  ))}
                </tr>
              </thead>
              <tbody>
                {first !== undefined && first.start > 0 && <Spacer height={first.start} span={numColumns} />}
                {items.map((item) => {
                  const row = sorted[item.index];
                  if (row === undefined) return null;
                  const key = rowKey(row.original);
                  return (
                    <MemoRow
                      key={row.id} row={row.original} columns={columns as Column<object>[]} index={item.index} id={key}
                      isActive={item.index === active} isSelected={onSelected === undefined ? null : (selected?.includes(key) ?? false)}
                      opens={onOpen !== undefined} onOpen={open as (row: object) => void} onFocus={setActive} onSelect={select}
                    />
                  );
                })}
                {last !== undefined && last.end < virtualizer.getTotalSize() && (
                  <Spacer height={virtualizer.getTotalSize() - last.end} span={numColumns} />
                )}
              </tbody>
            </table>
          </div>
        </div>
      )}
      {(hasMore || rows.length > MANY) && (
        <p className={classes.foot}>
          {formatCount(rows.length)} {hasMore ? "loaded, more below" : "rows"}
          {isLoadingMore && " · loading"}
          {(selected?.length ?? 0) > 0 && ` · ${formatCount(selected?.length)} selected`}
        </p>
      )}
    </>
  );
}

function Header<Row>({ column, direction, onSort }: { column: Column<Row>; direction: "ascending" | "descending" | undefined; onSort?: () => void }) {
  const text = (
    <>
      {column.header}
      {column.unit !== undefined && <span className={classes.unit}> {column.unit}</span>}
    </>
  );
  return (
    <th scope="col" data-align={column.align ?? "left"} aria-sort={direction} title={column.meaning}>
      {onSort === undefined ? text : (
        <button type="button" onClick={onSort}>
          {text}
          {direction === "ascending" ? " ↑" : direction === "descending" ? " ↓" : ""}
        </button>
      )}
    </th>
  );
}

type RowProps = {
  row: object;
  columns: Column<object>[];
  index: number;
  id: Key;
  isActive: boolean;
  /** null where rows cannot be selected. */
  isSelected: boolean | null;
  opens: boolean;
  onOpen: (row: object) => void;
  onFocus: (index: number) => void;
  onSelect: (key: Key, isRange: boolean) => void;
};

/** A row is drawn again only when it or its state changed: a live list replaces one in ten. */
const MemoRow = memo(function DataRow({ row, columns, index, id, isActive, isSelected, opens, onOpen, onFocus, onSelect }: RowProps) {
  return (
    <tr
      data-row={index}
      aria-rowindex={index + 2}
      aria-selected={isSelected ?? undefined}
      tabIndex={isActive ? 0 : -1}
      data-opens={opens}
      onFocus={() => onFocus(index)}
      onClick={(event) => {
        if (event.target instanceof HTMLElement && event.target.closest("a, button, input, label")) return;
        if (window.getSelection()?.toString()) return;
        onOpen(row);
      }}
    >
      {isSelected !== null && (
        <td>
          <input
            type="checkbox" aria-label={`Select ${id}`} checked={isSelected} onChange={() => undefined}
            onClick={(event) => onSelect(id, event.shiftKey)}
          />
        </td>
      )}
      {columns.map((column) => (
        <td key={column.id} data-align={column.align ?? "left"}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
});

function Spacer({ height, span }: { height: number; span: number }) {
  return (
    <tr aria-hidden="true">
      <td colSpan={span} className={classes.spacer} style={{ height }} />
    </tr>
  );
}

/** While the pointer or the focus is in the table, or it is scrolled, its rows stay; see holdRows. */
function useHeldRows<Row>(rows: readonly Row[], rowKey: (row: Row) => Key, live: string | undefined) {
  const [held, setHeld] = useState<{ list: string; rows: readonly Row[] } | null>(null);
  const isHeld = live !== undefined && held?.list === live;
  const keyOf = useRef(rowKey);
  const shown = useMemo(
    // eslint-disable-next-line react-hooks/refs -- how a row is named does not change
    () => (isHeld ? holdRows(held.rows, rows, keyOf.current) : { rows, numNew: 0 }),
    [isHeld, held, rows],
  );
  return {
    ...shown,
    hold: () => {
      if (live !== undefined && !isHeld) setHeld({ list: live, rows });
    },
    release: (element: HTMLElement | null) => {
      if (element === null || element.scrollTop > 0) return;
      requestAnimationFrame(() => {
        if (!element.matches(":hover") && !element.contains(document.activeElement)) setHeld(null);
      });
    },
    showNew: () => setHeld(null),
  };
}

function useSelection(keysOf: () => Key[], selected: readonly Key[] = [], onSelected: ((keys: Key[]) => void) | undefined) {
  const anchor = useRef<Key | null>(null);
  return {
    toggle: (key: Key, isRange: boolean) => {
      onSelected?.(withSelection(selected, keysOf(), key, isRange ? anchor.current : null));
      anchor.current = key;
    },
    toggleAll: () => {
      const keys = keysOf();
      onSelected?.(keys.every((key) => selected.includes(key)) ? [] : keys);
    },
  };
}

/** A function that never changes and calls the newest one. */
function useLatest<Args extends unknown[]>(callback: (...args: Args) => void): (...args: Args) => void {
  const latest = useRef(callback);
  useEffect(() => {
    latest.current = callback;
  });
  return useCallback((...args: Args) => latest.current(...args), []);
}
