import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { at, makeMe, makeRun, makeRunDetail, makeWorker, page } from "../test/factories";
import { renderApp } from "../test/render";
import { server } from "../test/server";

const V1 = "*/api/v1";
const project = makeMe().projects[0] ?? expect.fail("a person has a project");

/** An app on the events of run 7, which needs little of the API; the asked lists of runs are kept. */
function open(path = "/runs/7/events", me = makeMe()) {
  const asked: URL[] = [];
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(me)),
    http.get(`${V1}/runs`, ({ request }) => {
      asked.push(new URL(request.url));
      return HttpResponse.json(page([makeRun({ id: 6, name: "a run called zebra" })]));
    }),
    http.get(`${V1}/runs/:run`, ({ params }) => HttpResponse.json(makeRunDetail({ id: Number(params.run), name: `run no. ${String(params.run)}` }))),
    http.get(`${V1}/runs/:run/events`, () => HttpResponse.json(page([]))),
    http.get(`${V1}/runs/:run/event-kinds`, () => HttpResponse.json({ kinds: [] })),
    http.get(`${V1}/workers`, () => HttpResponse.json(page([makeWorker({ last_seen_at: at(371) })]))),
    http.get(`${V1}/*`, () => HttpResponse.json(page([]))),
  );
  return { asked, ...renderApp(path) };
}

test("the palette finds a run by its name and a thing by its number, by keyboard alone", async () => {
  const { router, asked } = open();
  await screen.findByRole("heading", { name: "run no. 7" });
  await userEvent.keyboard("{Control>}k{/Control}");
  const input = await screen.findByRole("combobox", { name: /^Page, run/ });
  await waitFor(() => expect(document.activeElement).toBe(input));

  await userEvent.keyboard("trajectory 4012");
  const options = () => screen.getAllByRole("option");
  expect(options()[0]?.textContent).toContain("Trajectory 4012");
  expect(input.getAttribute("aria-activedescendant")).toBe(options()[0]?.id);

  await userEvent.clear(input);
  await userEvent.keyboard("zebra");
  await waitFor(() => expect(asked.at(-1)?.searchParams.get("name")).toBe("zebra"));
  await waitFor(() => expect(options()[0]?.textContent).toContain("a run called zebra"));
  await userEvent.keyboard("{ArrowDown}{ArrowUp}{Enter}");
  await waitFor(() => expect(router.state.location.pathname).toBe("/runs/6/overview"));
  expect(screen.queryByRole("combobox", { name: /^Page, run/ })).toBeNull();
});

test("g and a letter go to a section, ? lists the keys, and both can be turned off", async () => {
  const { router } = open();
  await screen.findByRole("heading", { name: "run no. 7" });
  await userEvent.keyboard("?");
  const help = await screen.findByRole("dialog", { name: "Keyboard" });
  expect(within(help).getByText("Copy the address of this view")).toBeTruthy();
  await userEvent.click(within(help).getByRole("switch"));
  await userEvent.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await userEvent.keyboard("gr");
  expect(router.state.location.pathname).toBe("/runs/7/events");

  await userEvent.click(screen.getByRole("button", { name: /^ada: theme/ }));
  await userEvent.click(await screen.findByRole("menuitemcheckbox", { name: "Single keys" }));
  await userEvent.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("menu")).toBeNull());
  await userEvent.keyboard("gr");
  await waitFor(() => expect(router.state.location.pathname).toBe("/runs"));
});

test("who is in several projects chooses one: it is in the address, in the query and remembered", async () => {
  const two = makeMe({ projects: [project, { ...project, id: 2, slug: "other", name: "Other", role: "viewer" }] });
  const { router, asked } = open("/runs", two);
  await userEvent.click(await screen.findByRole("button", { name: /^Default admin: choose/ }));
  await userEvent.click(await screen.findByRole("menuitem", { name: /Other/ }));
  await screen.findByRole("button", { name: /^Other viewer: choose/ });
  await waitFor(() => expect(asked.at(-1)?.searchParams.get("project")).toBe("other"));
  expect(router.state.location.publicHref).toBe("/runs?project=other");
  expect(router.state.location.search).toEqual({});
});

test("a link with a project opens in that project", async () => {
  const { asked } = open("/runs?project=other", makeMe({ projects: [project, { ...project, id: 2, slug: "other", name: "Other" }] }));
  await screen.findByRole("button", { name: /^Other admin: choose/ });
  await waitFor(() => expect(asked.at(-1)?.searchParams.get("project")).toBe("other"));
});

test("the pill tells three clocks apart and pauses", async () => {
  open();
  await userEvent.click(await screen.findByRole("button", { name: /^Live updates/ }));
  expect(await screen.findByText("Producers: newest heartbeat of a worker")).toBeTruthy();
  expect(screen.getByText("Store: newest event of run 7")).toBeTruthy();
  await userEvent.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Pause" }));
  expect(await screen.findByRole("button", { name: "Live updates: Paused" })).toBeTruthy();
});

test("an address that names no page is told inside the shell", async () => {
  open("/no/such/page");
  expect(await screen.findByText("There is no such page.")).toBeTruthy();
  expect(screen.getByRole("navigation", { name: "Main" })).toBeTruthy();
});
