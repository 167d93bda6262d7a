import { expect, test } from "vitest";

import { codePoints, textRows } from "./textRows";

test("lines are rows, and a last newline begins none", () => {
  expect(textRows("a\n\nb\n", 80)).toEqual([{ text: "a", line: 1 }, { text: "", line: 2 }, { text: "b", line: 3 }]);
  expect(textRows("", 80)).toEqual([{ text: "", line: 1 }]);
});

test("a line of a megabyte is many short rows, and nothing of it is lost", () => {
  const long = "x".repeat(1_000_000);
  const rows = textRows(`a\n${long}\nb`, 100);
  expect(rows).toHaveLength(10_002);
  expect(rows[1]?.line).toBe(2);
  expect(rows[2]?.line).toBeNull();
  expect(rows.slice(1, -1).map((row) => row.text).join("")).toBe(long);
});

test("a character is not broken in two", () => {
  const rows = textRows("😀".repeat(5), 3);
  expect(rows.map((row) => row.text).join("")).toBe("😀".repeat(5));
  for (const row of rows) expect(() => encodeURIComponent(row.text)).not.toThrow();
  expect(textRows("😀", 1).map((row) => row.text).join("")).toBe("😀");
});

test("characters are counted as the database counts them", () => {
  expect(codePoints("a😀é")).toBe(3);
});
