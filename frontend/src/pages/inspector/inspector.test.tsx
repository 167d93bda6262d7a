import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import type { Turn } from "../../api/types";
import {
  makeAttempt, makeMe, makePatch, makeRunDetail, makeTrajectory, makeTrajectoryDetail, makeTurn, page, skeletonOf,
} from "../../test/factories";
import { renderApp } from "../../test/render";
import { server } from "../../test/server";

const V1 = "*/api/v1";
const HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>";

type Served = { turns?: Turn[]; detail?: Parameters<typeof makeTrajectoryDetail>[0]; skeleton?: Parameters<typeof skeletonOf>[1]; patch?: string };

/** A trajectory with its parts; a handler that is given comes first. */
function serve({ turns = [makeTurn()], detail, skeleton, patch }: Served, ...handlers: Parameters<typeof server.use>) {
  server.use(
    ...handlers,
    http.get(`${V1}/me`, () => HttpResponse.json(makeMe())),
    http.get(`${V1}/runs/7`, () => HttpResponse.json(makeRunDetail())),
    http.get(`${V1}/runs/7/trajectories`, () => HttpResponse.json(page([]))),
    http.get(`${V1}/trajectories/:id`, ({ params }) => HttpResponse.json(makeTrajectoryDetail({ id: Number(params.id), ...detail }))),
    http.get(`${V1}/trajectories/:id/skeleton`, () => HttpResponse.json(skeletonOf(turns, skeleton))),
    http.get(`${V1}/trajectories/:id/patch`, () => HttpResponse.json(makePatch(patch))),
    http.get(`${V1}/trajectories/:id/turns`, ({ request }) => {
      const query = new URL(request.url).searchParams;
      const from = Number(query.get("from_index"));
      return HttpResponse.json(page(turns.filter((turn) => turn.index >= from).slice(0, Number(query.get("limit")))));
    }),
  );
}

const noMarkup = () => expect(document.querySelector("#content img, #content script, img, body script")).toBeNull();

test("J and K walk the filtered list that the reader came from", async () => {
  const ids = [30, 20, 10];
  serve(
    {},
    http.get(`${V1}/runs/7/trajectories`, ({ request }) => {
      expect(new URL(request.url).searchParams.get("status")).toBe("failed");
      return HttpResponse.json(page(ids.map((id) => makeTrajectory({ id, status: "failed", reward: null }))));
    }),
  );
  const { router } = renderApp("/trajectories/20?status=failed&tab=patch");
  await screen.findByText("trajectory 20");
  await waitFor(() => expect(screen.getByRole("button", { name: /Next/ })).toHaveProperty("disabled", false));
  await userEvent.keyboard("j");
  await screen.findByText("trajectory 10");
  expect(router.state.location.search).toEqual({ status: "failed", tab: "patch" });
  await userEvent.keyboard("k");
  await screen.findByText("trajectory 20");
});

test("what a model and a sandbox wrote is text", async () => {
  const turn = makeTurn({ action: HOSTILE, command: HOSTILE, observation: `${HOSTILE}\u001b[2J\u202e` });
  serve({ detail: { instruction: HOSTILE }, turns: [turn] });
  renderApp("/trajectories/4012");
  expect(await screen.findByText(`${HOSTILE}^[[2J⟨U+202E⟩`)).toBeTruthy();
  expect(screen.getAllByText(HOSTILE)).toHaveLength(3); // outline, action, instruction
  noMarkup();
});

test("a patch, its names and its notes are text", async () => {
  const patch = `# ${HOSTILE}\ndiff --git a/x b/x\n--- /dev/null\n+++ b/${HOSTILE}\n@@ -0,0 +1,2 @@\n+${HOSTILE}\n+\u2066if\n`;
  serve({ patch });
  renderApp("/trajectories/4012?tab=patch");
  expect(await screen.findAllByText(HOSTILE)).toHaveLength(3);
  expect(screen.getByText("⟨U+2066⟩if")).toBeTruthy();
  expect(screen.getAllByText("+2")).toHaveLength(1);
  noMarkup();
});

test("a failed attempt shows its failure and no reward, beside the attempt that counts", async () => {
  const failure = { stage: "infer", kind: "infer_infra", message: HOSTILE };
  const attempts = [
    makeAttempt({ id: 1, number: 1, status: "failed", reward: null, failure, grade: {}, stop_reason: "", num_llm_errors: 2 }),
    makeAttempt({ id: 2, number: 2, reward: 1 }),
  ];
  serve({ detail: { attempts, num_attempts: 2 }, turns: [] });
  renderApp("/trajectories/4012?attempt=1");
  expect(await screen.findByText(/The infrastructure failed at infer/)).toBeTruthy();
  const facts = within(await screen.findByLabelText("Facts"));
  expect(facts.getByText("invalid")).toBeTruthy();
  expect(facts.getByText("2 of 2 · 100.0 %")).toBeTruthy();
  expect(await screen.findByText("No turns")).toBeTruthy();
  noMarkup();
});

test("a long body says how long it is and is loaded by parts to its end", async () => {
  const whole = "x".repeat(3_000_000) + "THE END";
  const asked: string[] = [];
  serve(
    { turns: [makeTurn({ observation: whole.slice(0, 65_536), observation_length: whole.length })] },
    http.get(`${V1}/trajectories/4012/turns/0/text`, ({ request }) => {
      const query = new URL(request.url).searchParams;
      asked.push(`${query.get("part")} ${query.get("from")}`);
      const start = Number(query.get("from"));
      return HttpResponse.json({ part: "observation", start, length: whole.length, text: whole.slice(start, start + 1_600_000) });
    }),
  );
  renderApp("/trajectories/4012");
  await userEvent.click(await screen.findByRole("button", { name: "The first 64 KiB of 2.9 MiB. Show 2.9 MiB" }));
  expect(await screen.findByText("1,600,000 of 3,000,007 characters")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Load more" }));
  expect(await screen.findByText("All 3,000,007 characters")).toBeTruthy();
  expect(asked).toEqual(["observation 0", "observation 1600000"]);
  const shown = screen.getByRole("region", { name: "output of turn 0" });
  expect(shown.textContent.length).toBeLessThan(50_000); // rows in view, not three million characters
});

test("the outline names what is remarkable of a turn, and E goes to the next error", async () => {
  const turns = [0, 1, 2, 3].map((index) => makeTurn({ index, command: `c${index}`, exit_code: index === 2 ? 1 : 0 }));
  serve({ turns, skeleton: { first_edit: 1, repeated: [3], repeats: [{ command: "c1", turns: [1, 2, 3] }] } });
  const { router } = renderApp("/trajectories/4012");
  const outline = within(await screen.findByRole("navigation", { name: "Turns" }));
  expect(outline.getByRole("img", { name: "first edit" })).toBeTruthy();
  expect(outline.getByRole("img", { name: "exit 1" })).toBeTruthy();
  expect(outline.getByRole("img", { name: "command repeated" })).toBeTruthy();
  expect(screen.getByText("Loop: 3 times in a row from turn 1")).toBeTruthy();
  await userEvent.keyboard("e");
  await waitFor(() => expect(router.state.location.search).toMatchObject({ turn: 2, tab: "transcript" }));
  await userEvent.keyboard("]");
  await waitFor(() => expect(router.state.location.search).toMatchObject({ turn: 3 }));
  await userEvent.keyboard("[[[["); // user-event writes [ as [[
  await waitFor(() => expect(router.state.location.search).toMatchObject({ turn: 1 }));
});

test("ten thousand turns are a screenful of rows", async () => {
  const turns = Array.from({ length: 10_000 }, (_, index) => makeTurn({ index, command: `c${index}` }));
  serve({ turns });
  renderApp("/trajectories/4012");
  const outline = await screen.findByRole("navigation", { name: "Turns" });
  expect(within(outline).getAllByRole("button").length).toBeLessThan(80);
  expect(within(outline).getByText("10000 turns")).toBeTruthy();
});

test("a running attempt marks where it is, an ended one nothing", async () => {
  serve({ detail: { status: "open", reward: null, attempts: [makeAttempt({ status: "grading", reward: null, finished_at: null, stop_reason: "" })] } });
  renderApp("/trajectories/4012");
  const loop = await screen.findByRole("list", { name: "Agentic loop" });
  expect(loop.querySelector("[aria-current=step]")?.textContent).toContain("Tests now");
});

test("a running attempt is followed until the reader scrolls up, and what came since is counted", async () => {
  const running = makeAttempt({ status: "running", reward: null, finished_at: null, stop_reason: "" });
  const turns = [makeTurn()];
  serve({ turns, detail: { status: "open", reward: null, attempts: [running] } });
  const { queryClient } = renderApp("/trajectories/4012");
  const transcript = within(await screen.findByRole("list", { name: "Transcript" }));
  expect(screen.queryByRole("button", { name: /Jump to live/ })).toBeNull();
  fireEvent.wheel(window, { deltaY: -40 });
  expect(await screen.findByRole("button", { name: "Jump to live (0 new)" })).toBeTruthy();

  turns.push(makeTurn({ index: 1 }), makeTurn({ index: 2 }));
  await act(() => queryClient.invalidateQueries({ queryKey: ["trajectory", 4012] }));
  await userEvent.click(await screen.findByRole("button", { name: "Jump to live (2 new)" }));
  expect(screen.queryByRole("button", { name: /Jump to live/ })).toBeNull();
  expect(await transcript.findByRole("heading", { name: "Turn 2" })).toBeTruthy();
});

test("named tests are told apart, and a verifier's output is text", async () => {
  const check = (kind: string, name: string, passed: number, total: number) => ({ kind, name, passed, total, value: null });
  serve(
    {},
    http.get(`${V1}/trajectories/4012/tests`, () =>
      HttpResponse.json({
        attempt: 1, status: "completed", is_graded: true, reward: 0, is_attributed_to_policy: false, duration_s: 0.4, output: `${HOSTILE}\n`,
        checks: [check("fail_to_pass", "test_odd", 0, 1), check("pass_to_pass", "test_even", 1, 1), check("other", "visible", 16, 18)],
      }),
    ),
  );
  renderApp("/trajectories/4012?tab=tests");
  expect(await screen.findByText("Fail to pass")).toBeTruthy();
  expect(screen.getByRole("rowheader", { name: "test_odd" })).toBeTruthy();
  expect(screen.getByRole("row", { name: "visible 16 18" })).toBeTruthy();
  expect(screen.getByText(HOSTILE)).toBeTruthy();
  noMarkup();
});

test("tokens without the trainer's log-probs are coloured by the sampler's, and the reason is said", async () => {
  serve(
    {},
    http.get(`${V1}/trajectories/4012/tokens`, () =>
      HttpResponse.json({
        attempt: 1, length: 4, num_sampled: 2, start: 0, ids: [1, 7, 8, 9], pieces: ["<|user|>", HOSTILE, "cat", " x\\xff"], special: [0], mask: [0, 0, 1, 1],
        logprobs: [null, null, -1.5, -0.1], trainer: null, versions: [null, null, 3, 4], turn_starts: [2], step: null, gap_mean: null,
        notes: ["No step has trained on it, so there are no log-probs of the trainer."],
      }),
    ),
  );
  renderApp("/trajectories/4012?tab=tokens");
  expect(await screen.findByText(/No step has trained on it/)).toBeTruthy();
  const text = screen.getByRole("application", { name: "Tokens" });
  expect(text.textContent).toBe(`<|user|>${HOSTILE}cat x\\xff`);
  noMarkup();
  text.focus();
  await userEvent.keyboard("{ArrowRight}{ArrowRight}");
  const readout = document.getElementById("token-readout");
  expect(readout?.textContent).toContain("log μ−1.5000");
  expect(readout?.textContent).toContain("weightsv3");
});

test("the log is searched on the server, hits are stepped through and a line is a link", async () => {
  const lines = Array.from({ length: 40 }, (_, i) => ({
    number: i + 1, turn: Math.floor(i / 10), part: i % 10 === 0 ? "command" : "output", text: i === 20 ? `${HOSTILE} Error` : `line ${i + 1}`, length: 10, start: 0, source: "observation",
  }));
  serve(
    {},
    http.get(`${V1}/trajectories/4012/log`, ({ request }) => {
      const q = new URL(request.url).searchParams.get("q");
      if (q === "(") return HttpResponse.json({ type: "about:blank", status: 422, code: "invalid", title: "This is not a regular expression that PostgreSQL reads.", errors: [] }, { status: 422 });
      const hits = lines.filter((line) => q !== null && line.text.includes(q));
      return HttpResponse.json({ attempt: 1, total: 40, num_hits: q === null ? null : hits.length, lines: q === null ? lines : hits });
    }),
  );
  const { router } = renderApp("/trajectories/4012?tab=logs");
  await userEvent.type(await screen.findByRole("textbox", { name: "Search the log" }), "Error{Enter}");
  expect(await screen.findByText(/^– of 1/)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Next hit" }));
  await waitFor(() => expect(router.state.location.search).toMatchObject({ find: "Error", line: 21 }));
  expect([...document.querySelectorAll("mark")].map((mark) => mark.textContent)).toEqual(["error", "Error"]); // onerror, too
  noMarkup();
  await userEvent.click(screen.getByRole("button", { name: "30" }));
  await waitFor(() => expect(router.state.location.search).toMatchObject({ line: 30 }));
  await userEvent.clear(screen.getByRole("textbox", { name: "Search the log" }));
  await userEvent.type(screen.getByRole("textbox", { name: "Search the log" }), "({Enter}");
  expect(await screen.findByText(/not a regular expression/)).toBeTruthy();
});
