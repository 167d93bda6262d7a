import { expect, test } from "vitest";

import { fuzzyFind, fuzzyScore } from "./fuzzy";

const find = (query: string, items: string[]) => fuzzyFind(query, items, (item) => item);

test("letters in order are found, others are not", () => {
  expect(fuzzyScore("lt", "Long tail")).not.toBeNull();
  expect(fuzzyScore("tl", "Long tail")).not.toBeNull();
  expect(fuzzyScore("tlg", "Long tail")).toBeNull();
});

test("beginnings of words come before letters within them, short texts before long ones", () => {
  expect(find("lt", ["Default", "Long tail"])).toEqual(["Long tail", "Default"]);
  expect(find("run", ["Runs", "Run"])).toEqual(["Run", "Runs"]);
  expect(find("task s", ["Trajectories of task sets", "Task sets"])[0]).toBe("Task sets");
});

test("no query keeps all in their order", () => {
  expect(find(" ", ["b", "a"])).toEqual(["b", "a"]);
});
