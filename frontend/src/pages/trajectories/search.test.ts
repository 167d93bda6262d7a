import { expect, test } from "vitest";

import { rangeOf, rangeText, trajectoriesSearch, withWord } from "./search";

test("a range is two comparisons in the words of the API", () => {
  expect(rangeText({ from: "8", to: "20" })).toBe("gte:8,lte:20");
  expect(rangeText({ from: "", to: "" })).toBeUndefined();
  for (const text of ["gte:8", "lte:20", "gte:8,lte:20", undefined]) {
    expect(rangeText(rangeOf(text) ?? { from: "?", to: "?" })).toBe(text);
  }
  expect(rangeOf("gt:8")).toBeUndefined();
  expect(rangeOf("5")).toBeUndefined();
});

test("words of a facet are put in and taken out", () => {
  expect(withWord(undefined, "solved")).toBe("solved");
  expect(withWord("solved", "invalid")).toBe("solved,invalid");
  expect(withWord("solved,invalid", "solved")).toBe("invalid");
  expect(withWord("invalid", "invalid")).toBeUndefined();
});

test("an address keeps what it knows and forgets the rest", () => {
  expect(trajectoriesSearch({ outcome: "solved", turns: "gte:8", group: "3", step: "x", colour: "red" })).toEqual({ outcome: "solved", turns: "gte:8", group: 3 });
});
