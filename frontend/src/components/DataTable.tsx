import {
  type ColumnDef, createSortedRowModel, rowSortingFeature, type SortingState, sortFn_alphanumeric, sortFn_basic, tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from "react";

import { formatCount } from "../lib/format";
import classes from "./DataTable.module.css";

export type Column<Row> = {
  id: string;
  header: string;
  /** Shown in the header, so that cells hold figures only. */
  unit?: string;
  align?: "left" | "right";
  width: number;
  cell: (row: Row) => ReactNode;
  /** Sorts the loaded rows. Give it only where the whole list is loaded. */
  sortValue?: (row: Row) => number | string | null;
};

type Props<Row> = {
  label: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string | number;
  /** What Enter and a click open. */
  onOpen?: (row: Row) => void;
  empty: ReactNode;
  hasMore?: boolean;
  isLoadingMore?: boolean;
  onMore?: () => void;
};

const ROW_PX = 32;
/** A reader counts fewer rows than this at a glance. */
const MANY = 12;
const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
});

/**
 * A table of any length: only the rows in view exist in the page. Arrows, J and K move, Enter opens.
 * Numbers align right with their unit in the header.
 */
export function DataTable<Row extends object>({
  label, columns, rows, rowKey, onOpen, empty, hasMore = false, isLoadingMore = false, onMore,
}: Props<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [sorting, setSorting] = useState<SortingState>([]);
  const [active, setActive] = useState(0);

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

  useEffect(() => {
    if (isNearEnd && hasMore && !isLoadingMore) onMore?.();
  }, [isNearEnd, hasMore, isLoadingMore, onMore]);

  const move = (to: number) => {
    const index = Math.max(0, Math.min(sorted.length - 1, to));
    setActive(index);
    virtualizer.scrollToIndex(index);
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLElement && event.target.closest("button, input, select")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "j") move(active + 1);
    else if (event.key === "ArrowUp" || event.key === "k") move(active - 1);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(sorted.length - 1);
    else if (event.key === "Enter" && !(event.target instanceof HTMLAnchorElement)) {
      const row = sorted[active];
      if (row !== undefined) onOpen?.(row.original);
    } else return;
    event.preventDefault();
  };

  if (rows.length === 0) return <>{empty}</>;
  return (
    <>
      {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions -- keys bubble up from the focusable rows */}
      <div className={classes.scroller} ref={scroller} onKeyDown={onKeyDown}>
        <table className={classes.table} aria-label={label} aria-rowcount={hasMore ? -1 : sorted.length + 1}>
          <colgroup>
            {columns.map((column) => (
              <col key={column.id} style={{ width: column.width }} />
            ))}
          </colgroup>
          <thead>
            <tr>
              {columns.map((column) => {
                const direction = sorting[0]?.id === column.id ? (sorting[0].desc ? "descending" : "ascending") : undefined;
                const text = (
                  <>
                    {column.header}
                    {column.unit !== undefined && <span className={classes.unit}> {column.unit}</span>}
                  </>
                );
                return (
                  <th key={column.id} scope="col" data-align={column.align ?? "left"} aria-sort={direction}>
                    {column.sortValue === undefined ? (
                      text
                    ) : (
                      <button type="button" onClick={() => table.getColumn(column.id)?.toggleSorting()}>
                        {text}
                        {direction === "ascending" ? " ↑" : direction === "descending" ? " ↓" : ""}
                      </button>
                    )}
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {first !== undefined && first.start > 0 && <Spacer height={first.start} span={columns.length} />}
            {items.map((item) => {
              const row = sorted[item.index];
              if (row === undefined) return null;
              return (
                <tr
                  key={row.id}
                  data-row={item.index}
                  aria-rowindex={item.index + 2}
                  tabIndex={item.index === active ? 0 : -1}
                  data-opens={onOpen !== undefined}
                  onFocus={() => setActive(item.index)}
                  onClick={(event) => {
                    if (event.target instanceof HTMLElement && event.target.closest("a, button")) return;
                    if (window.getSelection()?.toString()) return;
                    onOpen?.(row.original);
                  }}
                >
                  {columns.map((column) => (
                    <td key={column.id} data-align={column.align ?? "left"}>
                      {column.cell(row.original)}
                    </td>
                  ))}
                </tr>
              );
            })}
            {last !== undefined && last.end < virtualizer.getTotalSize() && (
              <Spacer height={virtualizer.getTotalSize() - last.end} span={columns.length} />
            )}
          </tbody>
        </table>
      </div>
      {(hasMore || rows.length > MANY) && (
        <p className={classes.foot}>
          {formatCount(rows.length)} {hasMore ? "loaded, more below" : "rows"}
          {isLoadingMore && " · loading"}
        </p>
      )}
    </>
  );
}

function Spacer({ height, span }: { height: number; span: number }) {
  return (
    <tr aria-hidden="true">
      <td colSpan={span} className={classes.spacer} style={{ height }} />
    </tr>
  );
}
