import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { Queue, Role, Worker } from "../../api/types";
import { at, makeMe, makeWorker, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const queue: Queue = {
  name: "rollout", waits_for: "a rollout worker to take it", depth: 3, oldest_at: at(0), num_messages: 2, num_consumers: 1, num_slots: 48, num_busy: 44,
};

function serve(workers: () => Worker[], role: Role = "operator") {
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe({ projects: makeMe().projects.map((project) => ({ ...project, role })) }))),
    http.get(`${V1}/queues`, () => HttpResponse.json({ queues: [queue, { ...queue, name: "control", num_consumers: null, num_slots: null, num_busy: null, oldest_at: null }] })),
    http.get(`${V1}/workers`, () => HttpResponse.json(page(workers()))),
    http.get(`${V1}/nodes`, () => HttpResponse.json(page([{ id: 1, hostname: "box", num_cpus: 2, memory_bytes: 2 ** 34, num_workers: 1, num_slots: 48, first_seen_at: at(0), last_seen_at: at(1) }]))),
  );
}

test("queues say what waits, and what nobody knows is no zero", async () => {
  serve(() => []);
  renderApp("/workers");
  const table = within(await screen.findByRole("table", { name: "Queues" }));
  expect(table.getByText("44 / 48")).toBeTruthy();
  const control = table.getByText("control").closest("tr");
  expect([...(control?.cells ?? [])].slice(-2).map((cell) => cell.textContent)).toEqual(["–", "–"]);
  expect(screen.getByText("No workers")).toBeTruthy();
});

test("who may get work comes first, and a draining worker says when it is empty", async () => {
  serve(() => [
    makeWorker({ id: 3, name: "old", status: "gone", num_busy: 0 }), makeWorker({ id: 2, name: "resting", status: "draining", num_busy: 0, drained_by: "ada", drain_reason: "kernel" }),
    makeWorker({ id: 4, name: "leaving", status: "draining", num_busy: 2 }), makeWorker({ id: 1, name: "first" }),
  ]);
  renderApp("/workers");
  const rows = within(await screen.findByRole("table", { name: "Workers" })).getAllByRole("row").slice(1);
  expect(rows.map((row) => within(row).getAllByRole("cell")[0]?.textContent)).toEqual(["first", "resting", "leaving", "old"]);
  expect(rows.slice(1, 3).map((row) => within(row).getAllByRole("cell")[2]?.textContent)).toEqual(["Drainingempty", "Draining2 left"]);
  expect(screen.getByTitle("ada: kernel")).toBeTruthy();
});

test("a worker is drained with a reason, and the list shows what the server says then", async () => {
  let worker = makeWorker({ name: "first" });
  const bodies: unknown[] = [];
  serve(() => [worker]);
  server.use(http.post(`${V1}/workers/1/drain`, async ({ request }) => {
    bodies.push(await request.json());
    worker = makeWorker({ name: "first", status: "draining", num_busy: 44 });
    return HttpResponse.json(worker);
  }));
  renderApp("/workers");
  await userEvent.click(await screen.findByRole("button", { name: "Drain" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByRole("textbox", { name: /Reason/ }), "a new kernel");
  await userEvent.click(dialog.getByRole("button", { name: "Drain" }));
  await waitFor(() => expect(bodies).toEqual([{ reason: "a new kernel" }]));
  expect(await screen.findByRole("button", { name: "Undrain" })).toBeTruthy();
});
