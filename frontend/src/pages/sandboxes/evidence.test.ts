import { expect, test } from "vitest";

import { readEvidence } from "./evidence";

test("texts are numbered lines, the rest are facts", () => {
  const { lines, facts } = readEvidence({ exit_code: 137, output: "one\ntwo\n", class: "oom" });
  expect(lines.map(({ number, source, text }) => [number, source, text])).toEqual([[1, "output", "one"], [2, "output", "two"]]);
  expect(facts).toEqual([{ name: "exit_code", value: "137" }, { name: "class", value: "oom" }]);
});

test("the first line that speaks of an error is where a reader begins", () => {
  expect(readEvidence({ output: "collecting\nok\nOSError: No space left on device\nerror: again" }).firstError).toBe(3);
  expect(readEvidence({ output: "all is\nwell" }).firstError).toBeNull();
});
