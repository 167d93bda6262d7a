import { expect, test } from "vitest";

import { makeEvalArm } from "../../test/factories";
import { armNames, type ComparedTask, gain, pValue, points, shownTasks } from "./compare";

const task = (key: string, ...attempts: (number | null)[][]): ComparedTask => ({ task_id: 1, task_set: 1, task: key, repository: "calc", attempts });
const tasks = [task("up", [0, 0], [1, 0]), task("down", [1, 1], [1, null]), task("same", [1, 0], [0, 1])];

test("an invalid attempt counts as unsolved, so it can cost a task a win", () => {
  expect(tasks.map(gain)).toEqual([0.5, -0.5, 0]);
});

test("tasks are narrowed by the last arm against the first", () => {
  const keys = (show: Parameters<typeof shownTasks>[1]) => shownTasks(tasks, show).map((one) => one.task);
  expect([keys("wins"), keys("losses"), keys("differ"), keys(undefined)]).toEqual([["up"], ["down"], ["up", "down"], ["up", "down", "same"]]);
});

test("arms of one run are told by their stage, others by their run too", () => {
  const base = makeEvalArm({ id: 1, stage: "base" });
  expect(armNames([base, makeEvalArm({ id: 2, stage: "rl" })])).toEqual(["base", "rl"]);
  expect(armNames([base, makeEvalArm({ id: 3, run: 8, run_name: "other", stage: "base" })])).toEqual(["miniature-seed-1 · base", "other · base"]);
  expect(armNames([base, makeEvalArm({ id: 3, run: 8, stage: "base" })])).toEqual(["miniature-seed-1 · base (run 7)", "miniature-seed-1 · base (run 8)"]);
});

test("differences are points, and a p-value is never zero", () => {
  expect([points(0.153), points(-0.02)]).toEqual(["+15.3", "−2.0"]);
  expect([pValue(0.0001), pValue(0.0371)]).toEqual(["< 0.001", "0.037"]);
});
