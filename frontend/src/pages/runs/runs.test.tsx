import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { at, makeCommands, makeMe, makeRun, makeRunDetail, makeStage, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";
import { baselinesOf, estimatesOf } from "../overview/SolveRates";

const V1 = "*/api/v1";
const me = (role: "viewer" | "operator" | "admin" = "admin") =>
  http.get(`${V1}/me`, () => HttpResponse.json(makeMe({ projects: makeMe().projects.map((project) => ({ ...project, role })) })));
const noRecipes = http.get(`${V1}/recipes`, () => HttpResponse.json(page([])));
const problem = (status: number, code: string, title: string, errors: { pointer: string; message: string }[] = []) =>
  HttpResponse.json({ type: "about:blank", status, code, title, errors }, { status, headers: { "content-type": "application/problem+json" } });

test("without a session every page leads to the login and back", async () => {
  server.use(
    http.get(`${V1}/me`, () => problem(401, "not_authenticated", "Log in first.")),
    http.post(`${V1}/login`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs`, () => HttpResponse.json(page([makeRun({ name: "after login" })]))),
    noRecipes,
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

test("a command that the server does not allow is shown and says why", async () => {
  const why = "Viewers may look, operators may act.";
  const commands = makeCommands().map((command) => ({ ...command, why_not: why }));
  server.use(
    me("viewer"),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail({ commands }))),
    http.get(`${V1}/runs/7/events`, () => HttpResponse.json(page([]))),
  );
  renderApp("/runs/7/events");
  const pause = await screen.findByRole("button", { name: "Pause" });
  expect(pause.getAttribute("aria-disabled")).toBe("true");
  await userEvent.hover(pause);
  expect(await screen.findByText(why)).toBeTruthy();
  await userEvent.click(pause);
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a checkpoint is asked for with a reason, and demo data and clones are named", async () => {
  const bodies: unknown[] = [];
  const detail = { is_demo: true, cloned_from: { id: 3, name: "its parent" } };
  server.use(
    me(),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail(detail))),
    http.get(`${V1}/runs/7/events`, () => HttpResponse.json(page([]))),
    http.post(`${V1}/runs/7/checkpoint`, async ({ request }) => {
      bodies.push(await request.json());
      return HttpResponse.json(makeRunDetail({ ...detail, checkpoint_asked_at: at(300) }));
    }),
  );
  renderApp("/runs/7/events");
  await userEvent.click(await screen.findByRole("button", { name: "Checkpoint now" }));
  await userEvent.type(await screen.findByRole("textbox", { name: /Reason/ }), "lunch");
  await userEvent.click(screen.getAllByRole("button", { name: "Checkpoint now" }).at(-1) ?? document.body);
  expect(await screen.findByText(/checkpoint asked for/)).toBeTruthy();
  expect(bodies).toEqual([{ reason: "lunch" }]);
  expect(screen.getByText("Demo data")).toBeTruthy();
  expect(screen.getByRole("link", { name: "its parent" })).toBeTruthy();
});

test("the filters, the order and the selection of the list are in its address, and two runs can be compared", async () => {
  const queries: string[] = [];
  server.use(
    me(),
    noRecipes,
    http.get(`${V1}/runs`, ({ request }) => {
      queries.push(new URL(request.url).search);
      return HttpResponse.json(page([makeRun({ id: 7, name: "first" }), makeRun({ id: 6, name: "second", is_demo: true })]));
    }),
  );
  const { router } = renderApp("/runs?status=running,paused");
  expect(await screen.findByText("first")).toBeTruthy();
  expect(screen.getAllByText("0.4 % of 2,313")).toHaveLength(2);
  expect(queries[0]).toContain("status=running%2Cpaused");

  await userEvent.click(within(screen.getByRole("table", { name: "Runs" })).getByRole("button", { name: /^Run/ }));
  await waitFor(() => expect(queries.at(-1)).toContain("sort=name"));
  await userEvent.type(screen.getByRole("textbox", { name: "Name" }), "mini");
  await waitFor(() => expect(queries.at(-1)).toContain("name=mini"));
  expect(screen.getByRole("button", { name: "Compare" }).getAttribute("aria-disabled")).toBe("true");
  const boxes = screen.getAllByRole("checkbox");
  for (const box of boxes.slice(-2)) await userEvent.click(box);
  expect(router.state.location.search).toMatchObject({ status: "running,paused", sort: "name", name: "mini", selected: "7,6" });
  expect(queries.at(-1)).not.toContain("selected");
  expect(screen.getByRole("link", { name: "Compare 2 runs" }).getAttribute("href")).toBe("/runs/compare?ids=7%2C6");
});

test("a list without runs says how to launch one, a filtered one how to see all", async () => {
  server.use(me(), noRecipes, http.get(`${V1}/runs`, () => HttpResponse.json(page([]))));
  const { router } = renderApp("/runs");
  expect(await screen.findByText("longtail runs launch -f recipes/miniature.yaml")).toBeTruthy();
  await router.navigate({ to: "/runs", search: { status: "failed" } });
  expect(await screen.findByRole("link", { name: "Show all runs" })).toBeTruthy();
});

test("a list that cannot be read says why", async () => {
  server.use(me(), noRecipes, http.get(`${V1}/runs`, () => problem(422, "bad_cursor", "This is not a cursor of ours.")));
  renderApp("/runs");
  expect((await screen.findByRole("alert")).textContent).toContain("This is not a cursor of ours.");
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
