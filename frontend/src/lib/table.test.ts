import { expect, test } from "vitest";

import { holdRows, nextSort, shownColumns, withColumn, withSelection } from "./table";

const key = ({ id }: { id: number }) => id;
const row = (id: number, turns = 0) => ({ id, turns });

test("rows under the pointer stay where they are, with new values; what comes in among them is counted", () => {
  const held = [row(3), row(2), row(1)];
  expect(holdRows(held, [row(5), row(4), row(3, 7), row(2), row(1)], key)).toEqual({ rows: [row(3, 7), row(2), row(1)], numNew: 2 });
});

test("the next page is appended, also when new rows pushed the last ones off", () => {
  const held = [row(3), row(2), row(1)];
  expect(holdRows(held, [row(4), row(3), row(2), row(1), row(0)], key)).toEqual({ rows: [row(3), row(2), row(1), row(0)], numNew: 1 });
  expect(holdRows(held, [row(5), row(4), row(3)], key)).toEqual({ rows: held, numNew: 2 });
  expect(holdRows(held, [row(9), row(8)], key)).toEqual({ rows: held, numNew: 2 });
});

const columns = [{ id: "id" }, { id: "task" }, { id: "step", isExtra: true }, { id: "turns" }];
const ids = (cols?: string) => shownColumns(columns, cols).map(({ id }) => id);

test("columns are the default set, or the named ones in their order; the first is always there", () => {
  expect(ids()).toEqual(["id", "task", "turns"]);
  expect(ids("turns,step,turns,nonsense,id")).toEqual(["id", "turns", "step"]);
  expect(ids("")).toEqual(["id"]);
});

test("a column that is chosen takes its place, and the default set needs no words", () => {
  expect(withColumn(columns, undefined, "step")).toBe("task,step,turns");
  expect(withColumn(columns, "task,step,turns", "step")).toBeUndefined();
  expect(withColumn(columns, undefined, "turns")).toBe("task");
  expect(withColumn(columns, "task", "task")).toBe("");
});

test("a header sorts figures from the largest, words from A, then the other way, then not", () => {
  expect(nextSort(undefined, "turns", true)).toBe("-turns");
  expect(nextSort("-turns", "turns", true)).toBe("turns");
  expect(nextSort("turns", "turns", true)).toBeUndefined();
  expect(nextSort("-turns", "task", false)).toBe("task");
  expect(nextSort("task", "task", false)).toBe("-task");
});

test("shift selects all between two clicks, or clears them", () => {
  const keys = [9, 8, 7, 6, 5];
  expect(withSelection([], keys, 8, null)).toEqual([8]);
  expect(withSelection([8], keys, 6, 8)).toEqual([8, 7, 6]);
  expect(withSelection([8, 7, 6], keys, 8, 6)).toEqual([]);
  expect(withSelection([5], keys, 9, 7)).toEqual([5, 9, 8, 7]);
  expect(withSelection([], keys, 7, 100)).toEqual([7]);
});
