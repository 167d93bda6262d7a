import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { LiveSocket, type SocketLike } from "./socket";

class FakeSocket implements SocketLike {
  onopen: SocketLike["onopen"] = null;
  onclose: SocketLike["onclose"] = null;
  onmessage: SocketLike["onmessage"] = null;
  sent: unknown[] = [];
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.drop(1000);
  }
  open() {
    this.onopen?.call(this as unknown as WebSocket, new Event("open"));
  }
  drop(code = 1006) {
    this.onclose?.call(this as unknown as WebSocket, new CloseEvent("close", { code }));
  }
  say(message: object) {
    this.onmessage?.call(this as unknown as WebSocket, new MessageEvent("message", { data: JSON.stringify(message) }));
  }
}

const EVENT = { type: "run_changed", run: 7, status: "paused" };
const beacon = (events: number) => ({ type: "beacon", topic: "p1.run.7", cursors: { events, metrics: 3 } });

function setUp() {
  const sockets: FakeSocket[] = [];
  const calls = { onEvent: vi.fn(), onGap: vi.fn(() => Promise.resolve()), onMoved: vi.fn(), onUnauthenticated: vi.fn() };
  const live = new LiveSocket({
    connect: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket;
    },
    random: () => 0,
    ...calls,
  });
  live.start();
  const latest = () => {
    const socket = sockets.at(-1);
    if (socket === undefined) throw new Error("not connected");
    return socket;
  };
  return { live, latest, sockets, ...calls };
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("a topic is subscribed once for all that follow it, and left when the last one goes", () => {
  const { live, latest } = setUp();
  latest().open();
  const leave = [live.follow("p1.run.7"), live.follow("p1.run.7")];
  expect(latest().sent).toEqual([{ subscribe: "p1.run.7" }]);
  leave[0]?.();
  expect(latest().sent).toHaveLength(1);
  leave[1]?.();
  expect(latest().sent.at(-1)).toEqual({ unsubscribe: "p1.run.7" });
});

test("after a lost connection it subscribes again and catches up before it is live", async () => {
  const { live, latest, sockets, onGap } = setUp();
  live.follow("p1.run.7");
  latest().open();
  await vi.advanceTimersByTimeAsync(0);
  expect(live.getState()).toEqual({ kind: "live" });
  latest().drop();
  expect(live.getState()).toEqual({ kind: "reconnecting", attempt: 1 });
  await vi.advanceTimersByTimeAsync(500);
  expect(sockets).toHaveLength(2);
  let caughtUp: () => void = () => undefined;
  onGap.mockImplementationOnce(() => new Promise<void>((resolve) => (caughtUp = resolve)));
  latest().open();
  expect(latest().sent).toEqual([{ subscribe: "p1.run.7" }]);
  expect(live.getState()).toEqual({ kind: "catching_up" });
  caughtUp();
  await vi.advanceTimersByTimeAsync(0);
  expect(live.getState()).toEqual({ kind: "live" });
});

test("retries wait longer and longer, and a long silence is stale", async () => {
  const { live, latest, sockets } = setUp();
  latest().open();
  latest().drop();
  for (let i = 0; i < 4; i += 1) {
    await vi.advanceTimersByTimeAsync(500);
    latest().drop();
  }
  expect(sockets).toHaveLength(5);
  await vi.advanceTimersByTimeAsync(500);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(live.getState().kind).toBe("stale");
});

test("a beacon that differs from the one before it names what moved", () => {
  const { live, latest, onMoved } = setUp();
  live.follow("p1.run.7");
  latest().open();
  latest().say(beacon(5));
  expect(onMoved).toHaveBeenLastCalledWith("p1.run.7", ["events", "metrics"]);
  latest().say(beacon(5));
  expect(onMoved).toHaveBeenCalledTimes(1);
  latest().say(beacon(6));
  expect(onMoved).toHaveBeenCalledTimes(2);
  expect(onMoved).toHaveBeenLastCalledWith("p1.run.7", ["events"]);
});

test("a paused page counts events, applies none, and fetches once when it goes on", async () => {
  const { live, latest, onEvent, onGap, onMoved } = setUp();
  latest().open();
  await vi.advanceTimersByTimeAsync(0);
  live.pause();
  latest().say(EVENT);
  latest().say(EVENT);
  latest().say(beacon(9));
  expect(onEvent).not.toHaveBeenCalled();
  expect(onMoved).not.toHaveBeenCalled();
  expect(live.getState()).toEqual({ kind: "paused", buffered: 2 });
  onGap.mockClear();
  live.unpause();
  expect(onGap).toHaveBeenCalledTimes(1);
  latest().say(EVENT);
  expect(onEvent).toHaveBeenCalledTimes(1);
});

test("missing beacons are a delay, not a live page", async () => {
  const { live, latest } = setUp();
  live.follow("p1.run.7");
  latest().open();
  await vi.advanceTimersByTimeAsync(13_000);
  expect(live.getState().kind).toBe("delayed");
  latest().say(beacon(1));
  await vi.advanceTimersByTimeAsync(1000);
  expect(live.getState()).toEqual({ kind: "live" });
});

test("a closed session asks to log in and does not retry", async () => {
  const { latest, sockets, onUnauthenticated } = setUp();
  latest().open();
  latest().drop(4401);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(onUnauthenticated).toHaveBeenCalledTimes(1);
  expect(sockets).toHaveLength(1);
});

test("messages of a newer server are ignored", () => {
  const { latest, onEvent } = setUp();
  latest().open();
  latest().say({ type: "of_tomorrow" });
  latest().onmessage?.call(latest() as unknown as WebSocket, new MessageEvent("message", { data: "not json" }));
  latest().say(EVENT);
  expect(onEvent).toHaveBeenCalledTimes(1);
  expect(onEvent).toHaveBeenCalledWith(EVENT);
});

test("a network that goes is noticed at once, and one that comes back is tried at once", async () => {
  const { live, latest, sockets } = setUp();
  latest().open();
  live.goOffline();
  expect(live.getState()).toEqual({ kind: "reconnecting", attempt: 1 });
  live.goOnline();
  expect(sockets).toHaveLength(2);
  live.goOnline();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(sockets).toHaveLength(2);
  latest().open();
  await vi.advanceTimersByTimeAsync(0);
  expect(live.getState()).toEqual({ kind: "live" });
});
