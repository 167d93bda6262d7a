import { expect, test } from "vitest";

import { ceilingOf, effectOf } from "./caps";

// solved in 8 turns, solved in 40, unsolved at 80, invalid after 20
const recorded = { outcome: [2, 2, 1, 0], turns: [8, 40, 80, 20], tokens: [100, 500, 900, 0], seconds: [360, 1800, 3600, 720] };

test("a cap that nobody reached changes nothing", () => {
  expect(effectOf(recorded, "turns", 80)).toEqual({ count: 4, valid: 3, solved: 2, hours: 1.8, cut: 0, hoursSaved: 0, solvedLost: 0 });
});

test("a cap of turns saves the share of seconds beyond it and loses what was solved beyond it", () => {
  // 40 turns of 1,800 s cut at 20: half; 80 of 3,600 s: three quarters; 20 and 8 stay
  expect(effectOf(recorded, "turns", 20)).toMatchObject({ cut: 2, hoursSaved: (900 + 2700) / 3600, solvedLost: 1 });
  expect(effectOf(recorded, "turns", 4)).toMatchObject({ cut: 4, solvedLost: 2 });
});

test("a cap of seconds saves exactly what lies beyond it, also of what ended invalid", () => {
  expect(effectOf(recorded, "seconds", 600)).toMatchObject({ cut: 3, hoursSaved: (1200 + 3000 + 120) / 3600, solvedLost: 1 });
});

test("a trajectory that wrote no token is not cut by a cap of tokens", () => {
  expect(effectOf(recorded, "tokens", 450)).toMatchObject({ cut: 2, hoursSaved: (180 + 1800) / 3600, solvedLost: 1 });
});

test("the slider ends at a round value", () => {
  expect(ceilingOf([8, 40, 80])).toBe(80);
  expect(ceilingOf([1728.4])).toBe(1800);
  expect(ceilingOf([65_536])).toBe(66_000);
  expect(ceilingOf([])).toBe(1);
});
