import { expect, test } from "vitest";

import { cliCommand, curlCommand } from "./commands";

const curl = (path: string, query?: Record<string, unknown>) => curlCommand("http://box:8000", path, query);

test("the query is the page's, without what is absent, and the token stays in the environment", () => {
  expect(curl("/api/v1/runs", { status: "running", sort: undefined, task: "", limit: 5 })).toBe(
    `curl -H "Authorization: Bearer $LONGTAIL_TOKEN" 'http://box:8000/api/v1/runs?status=running&limit=5'`,
  );
});

test("a plain address needs no quotes, a list is separated by commas", () => {
  expect(curl("/api/v1/runs/7")).toMatch(/ http:\/\/box:8000\/api\/v1\/runs\/7$/);
  expect(curl("/api/v1/runs", { ids: [1, 2] })).toContain("ids=1%2C2");
});

test("no filter can leave the quotes", () => {
  expect(curl("/x'; rm -rf ~", { task: "a'b$(c)`d`" })).toContain(`'http://box:8000/x'\\''; rm -rf ~?task=a%27b%24%28c%29%60d%60'`);
});

test("an option without a value is left out, and a value with spaces is one word", () => {
  expect(cliCommand("runs ls", { status: "running,paused", name: "it's mine", sort: undefined, from_run: 7 })).toBe(
    "longtail runs ls --status running,paused --name 'it'\\''s mine' --from-run 7",
  );
});
