import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";
import { parse } from "yaml";

import { diffLines } from "../../lib/diff";
import { parseRecipe, pathOf, rangeOf, withItem, withoutItem, withValue } from "./recipeYaml";

const TEXT = `# my recipe
version: 1
name: tiny  # of mine
description: >-
  A long text
  on two lines.
model:
  path: a/b
  # positions
  context_length: 448

rollout: {max_in_flight: 8}
stages:
  # first
  - kind: eval
    name: base
    attempts: 4
  - kind: sft
    name: sft-training
    betas: [0.9, 0.98]
# the end
`;
const changes = (after: string) =>
  diffLines(TEXT, after).filter((line) => line.kind !== "same").map((line) => `${line.kind === "added" ? "+" : "-"}${line.text}`);

test("a value is changed where it stands, and its comment stays", () => {
  expect(changes(withValue(TEXT, ["name"], "small"))).toEqual(["-name: tiny  # of mine", "+name: small  # of mine"]);
  expect(changes(withValue(TEXT, ["stages", 0, "attempts"], 8))).toEqual(["-    attempts: 4", "+    attempts: 8"]);
  expect(changes(withValue(TEXT, ["stages", 1, "betas"], [0.9, 0.95]))).toEqual(["-    betas: [0.9, 0.98]", "+    betas: [0.9, 0.95]"]);
});

test("a key that was not there follows the last of its mapping", () => {
  expect(changes(withValue(TEXT, ["stages", 0, "temperature"], 0.7))).toEqual(["+    temperature: 0.7"]);
  expect(changes(withValue(TEXT, ["seed"], 3))).toEqual(["+seed: 3"]);
});

test("a section that was not there comes with its key", () => {
  expect(changes(withValue(TEXT, ["agent", "turn_cap"], 10))).toEqual(["+agent:", "+  turn_cap: 10"]);
  const nested = withValue(TEXT, ["stages", 1, "algorithm", "clip_low"], 0.1);
  expect(changes(nested)).toEqual(["+    algorithm:", "+      clip_low: 0.1"]);
});

test("a key that is taken out leaves every other line as it was", () => {
  expect(changes(withValue(TEXT, ["model", "context_length"], undefined))).toEqual(["-  context_length: 448"]);
  expect(changes(withValue(TEXT, ["stages", 0, "attempts"], undefined))).toEqual(["-    attempts: 4"]);
  expect(withValue(TEXT, ["model", "nothing"], undefined)).toBe(TEXT);
  const agent = withValue(TEXT, ["agent", "turn_cap"], 10);
  expect(withValue(agent, ["agent", "turn_cap"], undefined)).toBe(TEXT);
});

test("flow mappings, block scalars and first keys of items are rewritten with their comments", () => {
  const flow = withValue(TEXT, ["rollout", "max_in_flight"], 16);
  expect(parse(flow)).toMatchObject({ rollout: { max_in_flight: 16 } });
  const text = withValue(TEXT, ["description"], "short");
  expect(parse(text)).toMatchObject({ description: "short" });
  expect(text).toContain("# positions");
  expect(withValue(TEXT, ["rollout", "max_in_flight"], undefined)).not.toContain("rollout");
});

test("what YAML would read as something else is quoted", () => {
  for (const value of ["yes: no", "1e3", "", "# no comment", "null", "on"]) {
    expect(parse(withValue(TEXT, ["name"], value), { version: "1.1" })).toMatchObject({ name: value });
  }
});

test("stages are added at the end and taken out with their lines", () => {
  const more = withItem(TEXT, ["stages"], { kind: "rl", name: "rl-training" });
  expect(changes(more)).toEqual(["+  - kind: rl", "+    name: rl-training"]);
  expect(changes(withoutItem(TEXT, ["stages"], 0))).toEqual(["-  - kind: eval", "-    name: base", "-    attempts: 4"]);
  expect(parse(withoutItem(withoutItem(TEXT, ["stages"], 1), ["stages"], 0))).toMatchObject({ stages: [] });
});

test("an edit of the shipped recipe touches one line", () => {
  const shipped = readFileSync(join(import.meta.dirname, "../../../../recipes/miniature.yaml"), "utf8");
  const edited = withValue(shipped, ["stages", 3, "algorithm", "learning_rate"], 0.001);
  expect(diffLines(shipped, edited).filter((line) => line.kind === "added").map((line) => line.text)).toEqual(["      learning_rate: 0.001"]);
});

test("text that is no YAML is told by line and column, and an edit leaves it alone", () => {
  const broken = "name: a\nmodel: [1, 2\nseed: 3\n";
  const { error } = parseRecipe(broken);
  expect([error?.line, error?.column]).toEqual([3, 1]);
  expect(withValue(broken, ["seed"], 4)).toBe(broken);
  expect(parseRecipe("- a\n- b\n").error?.message).toBe("The recipe is empty or not a mapping.");
});

test("a pointer of the server is a place in the text", () => {
  const range = rangeOf(TEXT, pathOf("/stages/1/betas"));
  expect(range === null ? "" : TEXT.slice(...range)).toBe("betas: [0.9, 0.98]");
  expect(rangeOf(TEXT, pathOf("/agent/turn_cap"))).toBeNull();
});
