import { expect, test } from "vitest";

import { choiceParam, countParam, localPath, textParams } from "./search";

test("unknown and malformed params are ignored", () => {
  expect(textParams({ status: "open", evil: "x", group: null }, ["status", "group"])).toEqual({ status: "open" });
  expect(textParams({ task: 17 }, ["task"])).toEqual({ task: "17" });
  expect(countParam({ turn: "3" }, "turn")).toBe(3);
  expect(countParam({ turn: 0 }, "turn")).toBe(0);
  for (const bad of ["", "-1", "1.5", "x", null, undefined, {}]) expect(countParam({ turn: bad }, "turn")).toBeUndefined();
  expect(choiceParam({ tab: "raw" }, "tab", ["transcript", "raw"])).toBe("raw");
  expect(choiceParam({ tab: "nope" }, "tab", ["transcript", "raw"])).toBeUndefined();
});

test("a login never leads to another site", () => {
  expect(localPath("/runs/7?x=1")).toBe("/runs/7?x=1");
  for (const bad of [undefined, "", "https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)"]) {
    expect(localPath(bad)).toBe("/runs");
  }
});
