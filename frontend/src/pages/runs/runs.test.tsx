import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { makeMe, makeRecipe, makeRun, makeRunDetail, makeStage, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";
import { baselinesOf, estimatesOf } from "../overview/SolveRates";

const V1 = "*/api/v1";
const me = (role: "viewer" | "operator" | "admin" = "admin") =>
  http.get(`${V1}/me`, () => HttpResponse.json(makeMe({ projects: makeMe().projects.map((project) => ({ ...project, role })) })));
const problem = (status: number, code: string, title: string, errors: { pointer: string; message: string }[] = []) =>
  HttpResponse.json({ type: "about:blank", status, code, title, errors }, { status, headers: { "content-type": "application/problem+json" } });

test("without a session every page leads to the login and back", async () => {
  server.use(
    http.get(`${V1}/me`, () => problem(401, "not_authenticated", "Log in first.")),
    http.post(`${V1}/login`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs`, () => HttpResponse.json(page([makeRun({ name: "after login" })]))),
  );
  const { router } = renderApp("/runs?status=running");
  await screen.findByRole("heading", { name: "Log in to Longtail" });
  expect(router.state.location.search).toEqual({ next: "/runs?status=running" });

  await userEvent.type(screen.getByLabelText(/User name/), "ada");
  await userEvent.type(screen.getByLabelText(/^Password/), "correct horse battery");
  await userEvent.click(screen.getByRole("button", { name: "Log in" }));
  expect(await screen.findByText("after login")).toBeTruthy();
  expect(router.state.location.href).toBe("/runs?status=running");
});

test("a wrong password is told in the server's words", async () => {
  server.use(http.post(`${V1}/login`, () => problem(401, "bad_login", "The name or the password is wrong.")));
  renderApp("/login");
  await userEvent.type(await screen.findByLabelText(/User name/), "ada");
  await userEvent.type(screen.getByLabelText(/^Password/), "x");
  await userEvent.click(screen.getByRole("button", { name: "Log in" }));
  expect((await screen.findByRole("alert")).textContent).toContain("The name or the password is wrong.");
});

test("a pause asks for a reason, carries the CSRF token and shows the state that the server answers", async () => {
  document.cookie = "csrftoken=abc";
  const bodies: unknown[] = [];
  server.use(
    me(),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/events`, () => HttpResponse.json(page([]))),
    http.post(`${V1}/runs/7/pause`, async ({ request }) => {
      bodies.push(await request.json(), request.headers.get("x-csrftoken"));
      return HttpResponse.json(makeRunDetail({ status: "paused", wait_sentence: "Paused by ada: lunch." }));
    }),
  );
  renderApp("/runs/7/events");
  await userEvent.click(await screen.findByRole("button", { name: "Pause" }));
  const confirm = () => screen.getAllByRole("button", { name: "Pause" }).at(-1) ?? document.body;
  await screen.findByRole("dialog");
  expect(confirm()).toHaveProperty("disabled", true);
  await userEvent.type(screen.getByRole("textbox", { name: /Reason/ }), "lunch");
  await userEvent.click(confirm());
  expect(await screen.findByText("Paused by ada: lunch.")).toBeTruthy();
  expect(screen.getByText("Paused")).toBeTruthy();
  expect(bodies).toEqual([{ reason: "lunch" }, "abc"]);
});

test("a viewer sees the commands and why they cannot be used", async () => {
  server.use(
    me("viewer"),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/events`, () => HttpResponse.json(page([]))),
  );
  renderApp("/runs/7/events");
  const pause = await screen.findByRole("button", { name: "Pause" });
  expect(pause.getAttribute("aria-disabled")).toBe("true");
  await userEvent.hover(pause);
  expect(await screen.findByText("Viewers may look, operators may act.")).toBeTruthy();
  await userEvent.click(pause);
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a refused launch names the fields, and the same text is sent under the same key", async () => {
  const keys: (string | null)[] = [];
  server.use(
    me(),
    http.get(`${V1}/recipes`, () => HttpResponse.json(page([makeRecipe()]))),
    http.post(`${V1}/runs`, ({ request }) => {
      keys.push(request.headers.get("idempotency-key"));
      return problem(422, "preflight_failed", "The recipe cannot be launched.", [{ pointer: "/timeouts/turn_s", message: "must be longer than llm_call_s" }]);
    }),
  );
  renderApp("/runs/new");
  const launch = await screen.findByRole("button", { name: "Launch" });
  await userEvent.click(launch);
  expect(await screen.findByText("/timeouts/turn_s")).toBeTruthy();
  await userEvent.click(launch);
  await waitFor(() => expect(keys).toHaveLength(2));
  expect(keys[1]).toBe(keys[0]);
  await userEvent.type(screen.getByRole("textbox", { name: /YAML/ }), "# changed");
  await userEvent.click(launch);
  await waitFor(() => expect(keys).toHaveLength(3));
  expect(keys[2]).not.toBe(keys[0]);
});

test("a check that found errors bars the launch until the text changes", async () => {
  server.use(
    me(),
    http.get(`${V1}/recipes`, () => HttpResponse.json(page([makeRecipe()]))),
    http.post(`${V1}/preflight`, () =>
      HttpResponse.json({
        is_launchable: false,
        checks: [{ name: "contamination", level: "error", sentence: "calc is in both splits.", configured: null, measured: null, pointer: "/task_sets" }],
      }),
    ),
  );
  renderApp("/runs/new");
  await userEvent.click(await screen.findByRole("button", { name: "Check" }));
  expect(await screen.findByText(/calc is in both splits/)).toBeTruthy();
  expect(screen.getByRole("button", { name: "Launch" })).toHaveProperty("disabled", true);
  await userEvent.type(screen.getByRole("textbox", { name: /YAML/ }), "# changed");
  expect(screen.getByRole("button", { name: "Launch" })).toHaveProperty("disabled", false);
  expect(screen.getByText("Check of an older text")).toBeTruthy();
});

test("a page that failed says so and can be tried again", async () => {
  let answers = 0;
  server.use(
    me(),
    http.get(`${V1}/runs/7`, () => {
      answers += 1;
      return answers === 1 ? problem(404, "not_found", "There is no run 7 in a project of yours.") : HttpResponse.json(makeRunDetail());
    }),
    http.get(`${V1}/runs/7/events`, () => HttpResponse.json(page([]))),
  );
  renderApp("/runs/7/events");
  expect((await screen.findByRole("alert")).textContent).toContain("There is no run 7");
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("miniature-seed-1")).toBeTruthy();
});

test("an address that names no run is not asked for", async () => {
  server.use(me());
  renderApp("/runs/7%20or%201/overview");
  expect(await screen.findByText("There is no such page.")).toBeTruthy();
});

test("solve rates come with interval and population, and only from evaluations that have a result", () => {
  const result = { pass_at_1: 0.171, low: 0.116, high: 0.234, tasks: 60, attempts: 238, invalid: 2, valid_only: 0.173, if_invalid_solved: 0.179, paired: null };
  const stages = [makeStage({ name: "sft", result, baselines: { uniform_tries: { mean: 0.3, low: 0.2, high: 0.4 } } }), makeStage({ name: "rl" })];
  expect(estimatesOf(stages)).toEqual([{ label: "sft", value: 0.171, low: 0.116, high: 0.234, upTo: 0.179, note: "60 tasks, 238 valid, 2 invalid" }]);
  expect(baselinesOf(stages)).toEqual([{ label: "uniform tries", value: 0.3 }]);
});
