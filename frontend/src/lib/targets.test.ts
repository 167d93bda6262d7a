import { expect, test } from "vitest";

import { targetsOf } from "./targets";

test("a thing is named by its kind and number, the kind may be short", () => {
  expect(targetsOf("trajectory 4012")).toEqual([{ kind: "trajectory", id: 4012 }]);
  expect(targetsOf(" T4012 ")).toEqual([{ kind: "trajectory", id: 4012 }]);
  expect(targetsOf("sandbox #3")).toEqual([{ kind: "sandbox", id: 3 }]);
});

test("a bare number may be a trajectory or a run", () => {
  expect(targetsOf("7")).toEqual([{ kind: "trajectory", id: 7 }, { kind: "run", id: 7 }]);
});

test("a task has a key, and other text names nothing", () => {
  expect(targetsOf("task calc-0017")).toEqual([{ kind: "task", key: "calc-0017" }]);
  expect(targetsOf("task sets of calc")).toEqual([]);
  expect(targetsOf("zebra 4")).toEqual([]);
});
