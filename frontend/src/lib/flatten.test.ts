import { expect, test } from "vitest";

import { flatten, rowsOf } from "./flatten";

test("a recipe opens into one row a value, stages by their names", () => {
  const recipe = { name: "tiny", agent: { turn_cap: 80 }, stages: [{ name: "rl", num_steps: 4, betas: [0.9, 0.95] }], empty: [], none: null };
  expect([...flatten(recipe)]).toEqual([
    ["name", "tiny"],
    ["agent.turn_cap", "80"],
    ["stages.rl.name", "rl"],
    ["stages.rl.num_steps", "4"],
    ["stages.rl.betas", "[0.9,0.95]"],
    ["empty", "[]"],
    ["none", "null"],
  ]);
});

test("a row is different where one value differs or one recipe has none", () => {
  const rows = rowsOf([flatten({ a: 1, b: 2 }), flatten({ a: 1, b: 3, c: 4 })]);
  expect(rows).toEqual([
    { path: "a", values: ["1", "1"], isDifferent: false },
    { path: "b", values: ["2", "3"], isDifferent: true },
    { path: "c", values: [null, "4"], isDifferent: true },
  ]);
});
