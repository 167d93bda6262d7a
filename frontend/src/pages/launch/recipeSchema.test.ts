import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { defaultOf, type Field, formatField, leavesOf, parseField, type Schema, sectionsOf, stageSections, valueAt } from "./recipeSchema";

const openapi = JSON.parse(readFileSync(join(import.meta.dirname, "../../../../docs/openapi.json"), "utf8")) as {
  components: { schemas: Record<string, Schema> };
};
/** The recipe's schema as the server serves it, out of the committed document. */
const schema: Schema = JSON.parse(
  JSON.stringify({ ...openapi.components.schemas.Recipe, $defs: openapi.components.schemas }).replaceAll("#/components/schemas/", "#/$defs/"),
) as Schema;

const number: Field = {
  kind: "number", name: "turn_cap", description: "", unit: "", fallback: 80, isRequired: false, isInteger: true, min: 1, max: null,
};

test("a recipe has a section for each part, with descriptions, units and defaults", () => {
  const sections = sectionsOf(schema);
  expect(sections.map((section) => section.name)).toEqual(["", "model", "agent", "timeouts", "sandbox", "engines", "trainer", "rollout"]);
  const field = sections.find((section) => section.name === "timeouts")?.fields.find((one) => one.name === "llm_call_s");
  expect(field).toMatchObject({ kind: "number", unit: "s", fallback: 600, description: "One model call." });
});

test("constants are not asked for, and a required field says so", () => {
  const [own] = sectionsOf(schema);
  expect(own?.fields.map((field) => field.name)).toEqual(["name", "description", "seed", "task_sets"]);
  expect(own?.fields[0] && defaultOf(own.fields[0])).toBe("required");
});

test("each kind of stage has its own fields, and the algorithm of rl its own section", () => {
  const stages = stageSections(schema);
  expect(Object.keys(stages).sort()).toEqual(["eval", "rl", "sft"]);
  expect(stages.rl?.sections.map((section) => section.name)).toEqual(["algorithm"]);
  expect(stages.sft?.fields.map((field) => field.kind)).toContain("numbers");
  expect(stages.rl?.fields.find((field) => field.name === "min_valid")).toMatchObject({ kind: "number", fallback: null });
});

test("what is typed becomes a value of the field's type, or nothing", () => {
  expect(parseField(number, "12")).toEqual({ value: 12 });
  expect(parseField(number, "")).toEqual({ value: undefined });
  expect(parseField(number, "1.5")).toBeNull();
  expect(parseField(number, "many")).toBeNull();
  expect(parseField({ ...number, isInteger: false }, "4e-4")).toEqual({ value: 0.0004 });
  expect(parseField({ ...number, kind: "numbers", count: 2 }, "0.9, 0.98")).toEqual({ value: [0.9, 0.98] });
  expect(parseField({ ...number, kind: "numbers", count: 2 }, "0.9")).toBeNull();
  expect(parseField({ ...number, kind: "words" }, "train: a@2\nheld_out: b")).toEqual({ value: { train: "a@2", held_out: "b" } });
  expect(parseField({ ...number, kind: "words" }, "train")).toBeNull();
});

test("a value is shown as it is typed", () => {
  expect(formatField({ train: "a", held_out: "b" })).toBe("train: a\nheld_out: b");
  expect(formatField([0.9, 0.98])).toBe("0.9, 0.98");
  expect(formatField(null)).toBe("");
  expect(defaultOf(number)).toBe("default 80");
});

test("a resolved recipe is a table of paths", () => {
  expect(leavesOf({ name: "a", stages: [{ kind: "eval", betas: [1, 2], num_tasks: null }] })).toEqual([
    { path: "name", value: "a" },
    { path: "stages/0/kind", value: "eval" },
    { path: "stages/0/betas", value: "1, 2" },
    { path: "stages/0/num_tasks", value: "–" },
  ]);
  expect(valueAt({ stages: [{ kind: "eval" }] }, ["stages", 0, "kind"])).toBe("eval");
  expect(valueAt({}, ["agent", "turn_cap"])).toBeUndefined();
});
