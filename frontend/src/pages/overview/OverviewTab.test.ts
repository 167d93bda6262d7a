import { expect, test } from "vitest";

import { at, makeStep } from "../../test/factories";
import { consumption } from "./figures/Balance";

test("consumption is what a step trained over the time since the step before it, in one life of the trainer", () => {
  const steps = [
    makeStep({ index: 0, started_at: at(0), finished_at: at(64), num_trajectories: 64 }),
    makeStep({ index: 1, started_at: at(100), finished_at: at(128), num_trajectories: 64 }),
    makeStep({ index: 1, resume: 1, started_at: at(500), finished_at: at(532), num_trajectories: 64 }),
    makeStep({ index: 2, resume: 1, started_at: at(540), finished_at: null }),
  ];
  expect(consumption(steps)).toEqual([
    { resume: 0, step: 0, value: 3600 },
    { resume: 0, step: 1, value: 3600 },
    { resume: 1, step: 1, value: 7200 },
  ]);
});
