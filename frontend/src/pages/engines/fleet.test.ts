import { expect, test } from "vitest";

import { makeEngine } from "../../test/factories";
import { skewSentence, spread } from "./fleet";

test("one saturated engine does not hide in the mean", () => {
  const engines = [0.1, 0.2, 0.96].map((token_usage, index) => makeEngine({ id: index, index, load: { token_usage } }));
  const found = spread(engines, (engine) => engine.load.token_usage);
  expect(found?.mean).toBeCloseTo(0.42);
  expect([found?.max, found?.at.index, found?.num]).toEqual([0.96, 2, 3]);
});

test("an engine that says nothing is in no mean", () => {
  const engines = [makeEngine({ load: {} }), makeEngine({ load: { running: 4 } })];
  expect(spread(engines, (engine) => engine.load.running)).toMatchObject({ mean: 4, max: 4, num: 1 });
  expect(spread(engines, (engine) => engine.load.longest_tokens)).toBeNull();
});

test("engines behind the newest weights are named by run, and dead ones are not", () => {
  const engines = [
    makeEngine({ index: 0, version_skew: 0 }), makeEngine({ index: 1, version_skew: 2 }), makeEngine({ index: 2, status: "gone", version_skew: 9 }),
  ];
  expect(skewSentence(engines)).toBe("run 7: 1 of 2 engines are behind the newest weights, by up to 2 versions");
  expect(skewSentence(engines.slice(0, 1))).toBeNull();
});
