import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { GroupDetail, GroupMember } from "../../api/types";
import { makeGroup, makeMe, makeRunDetail, makeTrajectory, page } from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const ran = (...commands: string[]) => commands.map((command, turn) => ({ turn, command, exit_code: turn === 0 ? 0 : 1, llm_s: 1, exec_s: 0.5 }));
const member = (id: number, fields: Partial<GroupMember> = {}, trajectory = {}): GroupMember => ({
  trajectory: makeTrajectory({ id, index: id, ...trajectory }), commands: ran("ls", `cat ${id}.py`), patch: `+ line of ${id}`, grade: { details: { test_a: true } }, is_cut: false,
  ...fields,
});

function serve(group: Partial<GroupDetail>) {
  const detail: GroupDetail = { ...makeGroup(), estimator: "grpo", min_valid: 4, members: [], ...group };
  server.use(
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/groups/311`, () => HttpResponse.json(detail)),
  );
}

const cells = (name: string) => within(screen.getByRole("row", { name: new RegExp(`^${name}`) })).getAllByRole("cell").map((cell) => cell.textContent);

test("members stand side by side with the turn in which they part", async () => {
  serve({ members: [member(1), member(2, { grade: { details: { test_a: false } } }, { reward: 0, advantage: -0.7 })] });
  renderApp("/runs/7/groups/311");
  expect(await screen.findByText("They part at turn 1.")).toBeTruthy();
  expect(cells("Turn 1 they part here")).toEqual(["cat 1.pyexit 1", "cat 2.pyexit 1"]);
  expect(cells("Turn 0")).toEqual(["ls", "ls"]);
  expect(cells("Reward")).toEqual(["1", "0"]);
  expect(cells("Advantage")[1]).toBe("−0.700");
  expect(cells("test_a")).toEqual(["✓ pass", "✗ fail"]);
});

test("a group without a gradient says why, and an invalid member is hatched and has no reward", async () => {
  const failure = { stage: "infer", kind: "infer_infra", message: "refused" };
  serve({
    zero_gradient: "none_solved", reward_mean: 0, reward_std: 0, num_members: 2, num_valid: 1,
    members: [member(1, {}, { reward: 0 }), member(2, { commands: [], patch: "", grade: {} }, { status: "failed", reward: null, advantage: null, failure, stop_reason: "" })],
  });
  renderApp("/runs/7/groups/311");
  expect(await screen.findByText("Zero gradient: none solved.")).toBeTruthy();
  expect(screen.getByText(/1 of 2 members is invalid \(hatched\)/)).toBeTruthy();
  expect(cells("Reward")).toEqual(["0", "invalid"]);
  expect(cells("Stopped by")[1]).toBe("infer: infer infra");
});

test("what a model wrote stays text", async () => {
  const hostile = "<img src=x onerror=alert(1)>\u202e";
  serve({ members: [member(1, { commands: ran(hostile), patch: hostile })] });
  renderApp("/runs/7/groups/311");
  expect((await screen.findAllByText("<img src=x onerror=alert(1)>⟨U+202E⟩")).length).toBe(2);
  expect(document.querySelector("img")).toBeNull();
});

test("a group of another run leads there", async () => {
  serve({ run: 9 });
  renderApp("/runs/7/groups/311");
  expect((await screen.findByRole("link", { name: "Open it in run 9" })).getAttribute("href")).toBe("/runs/9/groups/311");
});

test("the list of groups is filtered by why they teach nothing, in the words of the API", async () => {
  const queries: Record<string, string>[] = [];
  serve({});
  server.use(
    http.get(`${V1}/runs/7/groups`, ({ request }) => {
      queries.push(Object.fromEntries(new URL(request.url).searchParams));
      return HttpResponse.json(page([makeGroup({ zero_gradient: "all_solved" })]));
    }),
  );
  const { router } = renderApp("/runs/7/groups?zero_gradient=all_solved&has_invalid=true&sort=-mean");
  const cell = await screen.findByTitle(/Every valid member has the reward 1/);
  expect(cell.textContent).toBe("all solved");
  expect(queries.at(-1)).toEqual({ zero_gradient: "all_solved", has_invalid: "true", sort: "-mean", limit: "100" });
  await userEvent.click(screen.getByRole("button", { name: /Reward/ }));
  await screen.findByRole("table");
  expect(router.state.location.search).toMatchObject({ sort: "mean" });
});
