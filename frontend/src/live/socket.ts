/**
 * One WebSocket per tab.
 *
 *     connecting ──open──▶ catching up ──caught up──▶ live ⇄ delayed (beacons are late)
 *         ▲                                             │
 *         └── wait (full jitter, 0.5 … 30 s) ◀──close───┘        paused: events are counted, not applied
 *
 * Invariants: a topic is subscribed once however many components follow it, and again after every
 * reconnect; after a gap (reconnect, pause) `onGap` ends before the state is live again; a beacon that differs from the
 * one before makes its topic stale, so a lost message is repaired within one beacon.
 */
import { type LiveEvent, parseMessage } from "./events";

export type LiveState =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "delayed"; seconds: number }
  | { kind: "reconnecting"; attempt: number }
  | { kind: "catching_up" }
  | { kind: "paused"; buffered: number }
  | { kind: "stale"; seconds: number };

export type SocketLike = Pick<WebSocket, "send" | "close" | "onopen" | "onclose" | "onmessage">;

type Options = {
  connect: () => SocketLike;
  onEvent: (event: LiveEvent) => void;
  /** Something may have been missed: anything at all. */
  onGap: () => Promise<void>;
  /** These cursors of a topic are not what they were in its last beacon: fetch what they stand for. */
  onMoved: (topic: string, cursors: string[]) => void;
  /** The session ended: the page must log in again. */
  onUnauthenticated: () => void;
  random?: () => number;
};

/** The server sends a beacon on each open topic every 5 s. */
const DELAYED_AFTER_S = 12;
const STALE_AFTER_S = 60;
const UNAUTHENTICATED = 4401;

export class LiveSocket {
  private socket: SocketLike | null = null;
  private readonly topics = new Map<string, number>();
  private readonly beacons = new Map<string, Record<string, number>>();
  private readonly listeners = new Set<() => void>();
  private state: LiveState = { kind: "connecting" };
  private attempt = 0;
  private isPaused = false;
  private isClosed = false;
  private isOpen = false;
  private buffered = 0;
  private lastHeardAt = Date.now();
  private heardAt: string | null = null;
  private catchUps = 0;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private watch: ReturnType<typeof setInterval> | null = null;

  constructor(private readonly options: Options) {}

  start(): void {
    this.isClosed = false;
    this.watch ??= setInterval(() => this.update(), 1000);
    this.open();
  }

  stop(): void {
    this.isClosed = true;
    if (this.retry !== null) clearTimeout(this.retry);
    if (this.watch !== null) clearInterval(this.watch);
    this.retry = this.watch = null;
    this.socket?.close();
    this.socket = null;
    this.isOpen = false;
  }

  /** Follows a topic until the returned function is called. */
  follow(topic: string): () => void {
    const followers = this.topics.get(topic) ?? 0;
    this.topics.set(topic, followers + 1);
    if (followers === 0) this.send("subscribe", topic);
    return () => {
      const left = (this.topics.get(topic) ?? 1) - 1;
      if (left > 0) {
        this.topics.set(topic, left);
        return;
      }
      this.topics.delete(topic);
      this.beacons.delete(topic);
      this.send("unsubscribe", topic);
    };
  }

  pause(): void {
    this.isPaused = true;
    this.buffered = 0;
    this.update();
  }

  unpause(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.catchUp();
  }

  /** The browser knows that the network is gone long before a socket does. */
  goOffline(): void {
    const socket = this.socket;
    if (socket === null) return;
    this.lose();
    socket.close();
  }

  /** The network is back, or somebody looks again: no reason to wait for the next try. */
  goOnline(): void {
    if (this.socket !== null || this.isClosed) return;
    if (this.retry !== null) clearTimeout(this.retry);
    this.open();
  }

  getState = (): LiveState => this.state;

  /** When the server last said anything; null before it has. */
  getHeardAt = (): string | null => this.heardAt;

  onChange = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private open(): void {
    if (this.isClosed) return;
    const socket = this.options.connect();
    this.socket = socket;
    socket.onopen = () => {
      this.isOpen = true;
      this.attempt = 0;
      this.lastHeardAt = Date.now();
      for (const topic of this.topics.keys()) this.send("subscribe", topic);
      this.catchUp();
    };
    socket.onmessage = (event: MessageEvent<unknown>) => {
      this.lastHeardAt = Date.now();
      this.heardAt = new Date(this.lastHeardAt).toISOString();
      if (typeof event.data === "string") this.receive(event.data);
    };
    socket.onclose = ({ code }) => {
      if (this.socket === socket) this.lose(code);
    };
  }

  private lose(code?: number): void {
    this.isOpen = false;
    this.socket = null;
    this.beacons.clear();
    if (code === UNAUTHENTICATED) {
      this.options.onUnauthenticated();
      return;
    }
    this.attempt += 1;
    const ceiling = Math.min(30_000, 500 * 2 ** this.attempt);
    const wait = 500 + (this.options.random ?? Math.random)() * (ceiling - 500);
    if (!this.isClosed) this.retry = setTimeout(() => this.open(), wait);
    this.update();
  }

  private receive(text: string): void {
    const message = parseMessage(text);
    if (message === null || message.type === "subscribed" || message.type === "refused") return;
    if (message.type === "beacon") {
      const { topic, cursors } = message;
      const known = this.beacons.get(topic);
      if (this.isPaused) return;
      this.beacons.set(topic, cursors);
      // In the first beacon of a topic all cursors moved: pages may have fetched before they subscribed.
      const moved = Object.keys(cursors).filter((name) => known?.[name] !== cursors[name]);
      if (moved.length > 0) this.options.onMoved(topic, moved);
      return;
    }
    if (this.isPaused) {
      this.buffered += 1;
      this.update();
      return;
    }
    this.options.onEvent(message);
  }

  private catchUp(): void {
    this.catchUps += 1;
    this.update();
    this.options
      .onGap()
      .catch(() => undefined) // a query that failed shows its own error
      .finally(() => {
        this.catchUps -= 1;
        this.update();
      });
  }

  private send(action: "subscribe" | "unsubscribe", topic: string): void {
    if (this.isOpen) this.socket?.send(JSON.stringify({ [action]: topic }));
  }

  private update(): void {
    const next = this.describe();
    if (JSON.stringify(next) === JSON.stringify(this.state)) return;
    this.state = next;
    for (const listener of this.listeners) listener();
  }

  private describe(): LiveState {
    if (this.isPaused) return { kind: "paused", buffered: this.buffered };
    const silentS = Math.floor((Date.now() - this.lastHeardAt) / 1000);
    if (!this.isOpen) {
      if (silentS >= STALE_AFTER_S) return { kind: "stale", seconds: silentS };
      return this.attempt === 0 ? { kind: "connecting" } : { kind: "reconnecting", attempt: this.attempt };
    }
    if (this.catchUps > 0) return { kind: "catching_up" };
    if (silentS >= DELAYED_AFTER_S && this.topics.size > 0) return { kind: "delayed", seconds: silentS };
    return { kind: "live" };
  }
}
