import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { FailureGroupDetail, Role } from "../../api/types";
import { at, makeFailure, makeFailureGroup, makeMe, page } from "../../test/factories";
import { problem } from "../../test/problem";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const me = (role: Role = "operator") => http.get(`${V1}/me`, () => HttpResponse.json(makeMe({ projects: makeMe().projects.map((project) => ({ ...project, role })) })));

const detail = (fields: Partial<FailureGroupDetail> = {}): FailureGroupDetail => ({
  ...makeFailureGroup({ state: "ongoing" }),
  why: [{ part: "v1", meaning: "the version of the rule" }, { part: "URL", meaning: "stands for any address" }],
  facets: [
    { name: "host", num_values: 2, values: [{ value: "box", num_failures: 5 }, { value: "", num_failures: 1 }] },
    { name: "engine", num_values: 1, values: [{ value: "", num_failures: 6 }] },
  ],
  num_failed_attempts: 6, num_attempts: 2400, ...fields,
});

function serve(group: () => FailureGroupDetail, role?: Role) {
  server.use(
    me(role),
    http.get(`${V1}/failures/1`, () => HttpResponse.json(group())),
    http.get(`${V1}/failures/1/members`, () => HttpResponse.json(page([makeFailure()]))),
  );
}

test("groups are asked for by state, newest failure first, in the words of the address", async () => {
  const queries: string[] = [];
  server.use(me(), http.get(`${V1}/failures`, ({ request }) => {
    queries.push(new URL(request.url).search);
    return HttpResponse.json(page([makeFailureGroup({ state: "regressed" })]));
  }));
  const { router } = renderApp("/failures?state=new,regressed");
  const table = within(await screen.findByRole("table", { name: "Failure groups" }));
  expect(table.getByText("Regressed")).toBeTruthy();
  expect(queries).toEqual(["?state=new%2Cregressed&sort=-last"]);
  await userEvent.click(table.getByRole("button", { name: /^Failures/ }));
  expect(router.state.location.search.sort).toMatch(/^-?failures$/);
});

test("a filter that finds nothing says so, and can be taken away", async () => {
  server.use(me(), http.get(`${V1}/failures`, () => HttpResponse.json(page([]))));
  const { router } = renderApp("/failures?stage=exec");
  await userEvent.click(await screen.findByRole("button", { name: "Clear the filters" }));
  expect(await screen.findByText("No infrastructure failures")).toBeTruthy();
  expect(router.state.location.search).toEqual({});
});

test("a group says why it is one, where it happens and its share of attempts", async () => {
  serve(() => detail());
  renderApp("/failures/1");
  const facets = within(await screen.findByRole("region", { name: "Where it happens" }));
  expect(facets.getAllByRole("table").map((table) => table.getAttribute("aria-label"))).toEqual(["Failures by host"]);
  expect(facets.getByText("not said")).toBeTruthy();
  expect(screen.getByText("0.3 %")).toBeTruthy();
  expect(screen.getByText("stands for any address")).toBeTruthy();
});

test("a resolution asks why, and the state changes when the server has said so", async () => {
  let group = detail();
  let answer: () => void = () => undefined;
  const bodies: unknown[] = [];
  serve(() => group);
  server.use(http.post(`${V1}/failures/1/resolve`, async ({ request }) => {
    bodies.push(await request.json());
    await new Promise<void>((resolve) => (answer = resolve));
    group = detail({ state: "resolved", resolved_at: at(400), state_by: "ada", state_reason: "new image" });
    return HttpResponse.json(group);
  }));
  renderApp("/failures/1");
  await userEvent.click(await screen.findByRole("button", { name: "Resolve" }));
  const dialog = within(await screen.findByRole("dialog"));
  const send = dialog.getByRole("button", { name: "Resolve" });
  expect(send).toHaveProperty("disabled", true);
  await userEvent.type(dialog.getByRole("textbox", { name: /Reason/ }), "new image");
  await userEvent.click(send);
  await waitFor(() => expect(bodies).toEqual([{ reason: "new image" }]));
  expect(screen.getByText("Ongoing")).toBeTruthy();
  answer();
  expect(await screen.findByText("Resolved")).toBeTruthy();
  expect(screen.getByText(/by ada: “new image”/)).toBeTruthy();
  expect(screen.getByRole("button", { name: "Reopen" })).toBeTruthy();
});

test("a group is ignored for a time that is yet to come", async () => {
  const bodies: { reason: string; until: string }[] = [];
  serve(() => detail());
  server.use(http.post(`${V1}/failures/1/ignore`, async ({ request }) => {
    bodies.push((await request.json()) as { reason: string; until: string });
    return HttpResponse.json(detail());
  }));
  renderApp("/failures/1");
  await userEvent.click(await screen.findByRole("button", { name: "Ignore" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox", { name: "Reason" }), "known");
  await userEvent.click(dialog.getByRole("button", { name: "Ignore" }));
  await waitFor(() => expect(bodies).toHaveLength(1));
  const days = (Date.parse(bodies[0]?.until ?? "") - Date.now()) / 86_400_000;
  expect(days).toBeGreaterThan(6.9);
  expect(days).toBeLessThan(7.1);
});

test("a refusal leaves the dialog open and says why", async () => {
  serve(() => detail({ state: "ignored", ignored_until: at(9999) }));
  server.use(http.post(`${V1}/failures/1/reopen`, () => problem(403, "forbidden", "This needs the role operator.")));
  renderApp("/failures/1");
  await userEvent.click(await screen.findByRole("button", { name: "Reopen" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox", { name: /Reason/ }), "x");
  await userEvent.click(dialog.getByRole("button", { name: "Reopen" }));
  expect(await dialog.findByRole("alert")).toHaveProperty("textContent", expect.stringContaining("This needs the role operator."));
});

test("a viewer sees what could be said, and why they cannot", async () => {
  serve(() => detail(), "viewer");
  renderApp("/failures/1");
  const button = await screen.findByRole("button", { name: "Resolve" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
  await userEvent.hover(button);
  expect(await screen.findByText("Viewers may look, operators may act.")).toBeTruthy();
  await userEvent.click(button);
  expect(screen.queryByRole("dialog")).toBeNull();
});
