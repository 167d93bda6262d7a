import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { beforeEach, expect, test } from "vitest";

import type { Check } from "../../api/types";
import { makeMe, makeRecipe, makeRunDetail, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const SOURCE = "# mine\nversion: 1\nname: tiny\ndescription: A small one.\nagent:\n  turn_cap: 10\nstages:\n  - kind: eval\n    name: base\n";
const SCHEMA = {
  properties: {
    version: { const: 1 },
    name: { type: "string", description: "Lower case." },
    description: { type: "string", default: "" },
    agent: { $ref: "#/$defs/Agent" },
    stages: { type: "array", items: { discriminator: { mapping: { eval: "#/$defs/Eval" } }, oneOf: [{ $ref: "#/$defs/Eval" }] } },
  },
  required: ["name"],
  $defs: {
    Agent: {
      properties: {
        turn_cap: { type: "integer", default: 80, description: "Turns of a trajectory." },
        token_cap: { type: "integer", default: 65536, unit: "tokens" },
      },
    },
    Eval: { properties: { kind: { const: "eval" }, name: { type: "string" }, attempts: { type: "integer", default: 4 } }, required: ["name"] },
  },
};
const check = (fields: Partial<Check>): Check => ({
  name: "recipe", level: "ok", sentence: "Fine.", remedy: "", configured: null, measured: null, unit: "", pointer: "", ...fields,
});
const refusal = (pointer: string, message: string) =>
  HttpResponse.json(
    { type: "about:blank", status: 422, code: "preflight_failed", title: "The launch was refused.", errors: [{ pointer, message }] },
    { status: 422, headers: { "content-type": "application/problem+json" } },
  );

beforeEach(() => {
  sessionStorage.clear();
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/recipes`, () => HttpResponse.json(page([makeRecipe({ name: "tiny", source: SOURCE })]))),
    http.get(`${V1}/recipe-schema`, () => HttpResponse.json(SCHEMA)),
  );
});

const editor = () => screen.findByRole<HTMLTextAreaElement>("textbox", { name: /YAML/ });
const field = (name: string) => screen.getByLabelText<HTMLInputElement>(name, { exact: true });

test("the form changes one line of the text, and the text changes the form", async () => {
  renderApp("/runs/new");
  const text = await editor();
  expect(field("turn_cap").value).toBe("10");
  expect(field("token_cap (tokens)").placeholder).toBe("default 65536");

  await userEvent.clear(field("turn_cap"));
  await userEvent.type(field("turn_cap"), "12");
  expect(text.value).toBe(SOURCE.replace("turn_cap: 10", "turn_cap: 12"));
  expect(screen.getByText("1 line added, 1 removed")).toBeTruthy();

  await userEvent.type(field("token_cap (tokens)"), "448");
  expect(text.value).toContain("  turn_cap: 12\n  token_cap: 448\n");
  await userEvent.clear(text);
  await userEvent.type(text, "name: other");
  expect(field("name").value).toBe("other");
  expect(field("turn_cap").value).toBe("");
});

test("a value that a field cannot have changes nothing and says what is wanted", async () => {
  renderApp("/runs/new");
  const text = await editor();
  await userEvent.type(field("turn_cap"), ".5");
  expect(screen.getByText("A whole number")).toBeTruthy();
  expect(text.value).toBe(SOURCE);
});

test("text that is no YAML names line and column, and leaves the form as it was", async () => {
  renderApp("/runs/new");
  const text = await editor();
  await userEvent.type(text, "a: 'b");
  expect(screen.getAllByText(/line 10, column/i).length).toBeGreaterThan(0);
  expect(field("turn_cap").value).toBe("10");
  expect(field("turn_cap").matches(":disabled")).toBe(true);
  expect(screen.getByRole("button", { name: "Launch" })).toHaveProperty("disabled", true);
});

test("stages are added and taken out", async () => {
  renderApp("/runs/new");
  const text = await editor();
  await userEvent.click(screen.getByRole("button", { name: "Add eval stage" }));
  expect(text.value).toContain("  - kind: eval\n    name: eval\n");
  await userEvent.click(screen.getByRole("button", { name: "Remove stage base" }));
  expect(text.value).not.toContain("name: base");
});

test("a refused launch goes to the field that is wrong, and the same text is sent under the same key", async () => {
  const keys: (string | null)[] = [];
  server.use(
    http.post(`${V1}/runs`, ({ request }) => {
      keys.push(request.headers.get("idempotency-key"));
      return refusal("/agent/turn_cap", "must be less than 5");
    }),
  );
  renderApp("/runs/new");
  const launch = await screen.findByRole("button", { name: "Launch" });
  await userEvent.click(launch);
  expect(await screen.findByText("/agent/turn_cap")).toBeTruthy();
  await waitFor(() => expect(document.activeElement).toBe(field("turn_cap")));
  expect(screen.getAllByText(/must be less than 5/)).toHaveLength(2);

  await userEvent.click(launch);
  await waitFor(() => expect(keys).toHaveLength(2));
  expect(keys[1]).toBe(keys[0]);
  await userEvent.type(await editor(), "# changed");
  await userEvent.click(launch);
  await waitFor(() => expect(keys).toHaveLength(3));
  expect(keys[2]).not.toBe(keys[0]);
});

test("a refusal about what the form does not have goes to its place in the text", async () => {
  server.use(http.post(`${V1}/runs`, () => refusal("/stages/0/colour", "there is no such field")));
  renderApp("/runs/new");
  await userEvent.click(await screen.findByRole("button", { name: "Launch" }));
  const text = await editor();
  await waitFor(() => expect(document.activeElement).toBe(text));
  expect(text.value.slice(text.selectionStart, text.selectionEnd)).toContain("kind: eval");
});

test("a check names its figures and what to do, bars the launch until the text changes, and shows the dry run", async () => {
  server.use(
    http.post(`${V1}/preflight`, () =>
      HttpResponse.json({
        is_launchable: false,
        checks: [
          check({ name: "recipe" }),
          check({ name: "model", level: "error", sentence: "Too few positions.", remedy: "Lower it.", configured: 512, measured: 448, unit: "tokens", pointer: "/agent/token_cap" }),
        ],
        plan: {
          recipe: { name: "tiny", agent: { turn_cap: 10 } }, num_trajectories: 96, seconds: null, output_tokens: null, like: null,
          stages: [{ name: "base", kind: "eval", num_tasks: 24, num_trajectories: 96, num_steps: null, seconds: null, output_tokens: null }],
        },
      }),
    ),
  );
  renderApp("/runs/new");
  await userEvent.click(await screen.findByRole("button", { name: "Check" }));
  const row = within(await screen.findByRole("region", { name: "Check" })).getByRole("row", { name: /model/ });
  expect(row.textContent).toBe("modelRefusedToo few positions.Lower it.512448tokens/agent/token_cap");
  expect(screen.getByRole("region", { name: "Dry run" }).textContent).toContain("time and tokens are not known");
  expect(screen.getByRole("button", { name: "Launch" })).toHaveProperty("disabled", true);
  await userEvent.click(within(row).getByRole("button", { name: "/agent/token_cap" }));
  expect(document.activeElement).toBe(field("token_cap (tokens)"));

  await userEvent.type(await editor(), "# changed");
  expect(screen.getByRole("button", { name: "Launch" })).toHaveProperty("disabled", false);
  expect(screen.getByText("Check of an older text")).toBeTruthy();
});

test("a clone from a checkpoint says where it starts, suggests a name and sends both", async () => {
  const bodies: unknown[] = [];
  server.use(
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail({ name: "tiny" }))),
    http.get(`${V1}/runs/7/recipe`, () => HttpResponse.json({ source: SOURCE, recipe: {} })),
    http.get(`${V1}/runs/7/checkpoints`, () => HttpResponse.json(page([{ id: 3, step: 40, stage: "rl-training" }]))),
    http.post(`${V1}/runs`, async ({ request }) => {
      bodies.push(await request.json());
      return refusal("/from_checkpoint", "It was pruned.");
    }),
  );
  renderApp("/runs/new?from_run=7&from_checkpoint=3");
  expect(await screen.findByText(/weights after step 40 of rl-training/)).toBeTruthy();
  expect(field("Name").value).toBe("tiny-2");
  expect(screen.getByText("longtail runs launch -f RECIPE.yaml --from-run 7 --from-checkpoint 3")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Launch" }));
  expect(await screen.findByText("It was pruned.", { exact: false })).toBeTruthy();
  expect(bodies).toEqual([{ source: SOURCE, name: "tiny-2", from_run: 7, from_checkpoint: 3, project: "default" }]);
});

test("a draft outlives a reload and can be given up", async () => {
  const first = renderApp("/runs/new");
  await userEvent.type(await editor(), "# kept");
  first.router.history.destroy();
  document.body.innerHTML = "";

  renderApp("/runs/new");
  expect((await editor()).value).toBe(`${SOURCE}# kept`);
  await userEvent.click(screen.getByRole("button", { name: "Begin anew from the stored recipe tiny" }));
  expect((await editor()).value).toBe(SOURCE);
});

test("a viewer may look and check nothing", async () => {
  server.use(http.get(`${V1}/me`, () => HttpResponse.json(makeMe({ projects: makeMe().projects.map((project) => ({ ...project, role: "viewer" as const })) }))));
  renderApp("/runs/new");
  expect(await screen.findByText("Viewers may look, operators may launch.")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Launch" })).toHaveProperty("disabled", true);
});
