/**
 * A pushed event → the queries that are out of date. Push what changed, pull what it is.
 *
 * Metric points alone carry data: they are appended to curves of plain points. Smoothed and bucketed ones are the
 * server's work and are fetched again, those in view, once a second at most.
 */
import type { QueryClient, QueryKey } from "@tanstack/react-query";

import type { MetricSeries } from "../api/types";
import type { LiveEvent } from "./events";

type MetricPoints = Extract<LiveEvent, { type: "metrics_added" }>["points"];

/** The prefixes of the query keys that an event makes stale. A new event does not compile until it is here. */
export function staleKeys(event: LiveEvent): QueryKey[] {
  switch (event.type) {
    case "run_changed":
    case "stage_changed":
      return [
        ["run", event.run, "detail"],
        ["run", event.run, "overview"],
        ["run", event.run, "evals"],
        ["run", event.run, "checkpoints"],
        ["run", event.run, "resumes"],
        ["runs"],
      ];
    case "step_changed":
      return [["run", event.run, "steps"], ["run", event.run, "detail"], ["run", event.run, "overview"], ["run", event.run, "groups"]];
    case "trajectory_changed":
      return [
        ["trajectories", event.run],
        ["trajectory", event.trajectory],
        ["run", event.run, "detail"],
        ["run", event.run, "overview"],
        ["run", event.run, "groups"],
      ];
    case "event_added":
      return [["run", event.run, "events"]];
    case "metrics_added":
      return [["run", event.run, "series"], ["run", event.run, "metric-names"]];
    case "turns_added":
      return [["trajectory", event.trajectory]];
    case "fleet_changed":
      return [[event.what]];
    default:
      return event satisfies never;
  }
}

/**
 * What moved in a topic (the names of the cursors that differ in its beacon) → what may have been missed.
 * A cursor that this page does not know makes the whole topic stale.
 */
export function staleKeysOfTopic(topic: string, moved: readonly string[]): QueryKey[] {
  const [, kind, id] = topic.split(".");
  switch (kind) {
    case "runs":
      return [["runs"]];
    case "run":
      return moved.flatMap((cursor) => staleKeysOfRun(Number(id), cursor));
    case "trajectory":
      return [["trajectory", Number(id)]];
    case "fleet":
      return moved.map((cursor) => [cursor.startsWith("sandboxes") ? "sandboxes" : cursor]);
    default:
      return [];
  }
}

function staleKeysOfRun(run: number, cursor: string): QueryKey[] {
  const detail = ["run", run, "detail"];
  const overview = ["run", run, "overview"];
  switch (cursor) {
    case "metrics":
      return [["run", run, "metrics"], ["run", run, "series"], ["run", run, "metric-names"]];
    case "events":
      return [["run", run, cursor]];
    case "steps":
      return [detail, overview, ["run", run, "steps"]];
    case "groups":
      return [overview, ["run", run, "groups"]];
    case "trajectories":
    case "finished":
    case "attempts":
      return [detail, overview, ["trajectories", run], ["run", run, "groups"], ["run", run, "evals"]];
    case "engines":
      return [overview, ["engines"]];
    case "run":
    case "resume":
    case "weight_version":
    case "stages":
      return [detail, overview, ["run", run, "evals"]];
    default:
      return [["run", run], ["trajectories", run]];
  }
}

/** The series of a query with the new points in it; a point that is already there is replaced, not doubled. */
export function withPoints(series: MetricSeries[], points: MetricPoints, names: readonly string[]): MetricSeries[] {
  const wanted = points.filter((point) => names.includes(point.name));
  if (wanted.length === 0) return series;
  const next = new Map(series.map((one) => [one.name, one]));
  for (const { name, ...point } of wanted) {
    const known = next.get(name) ?? { name, unit: "", points: [] };
    const others = known.points.filter(({ resume, step }) => resume !== point.resume || step !== point.step);
    next.set(name, { ...known, points: [...others, point] });
  }
  return [...next.values()];
}

/**
 * Collects stale keys and invalidates them together, at most once per `intervalMs`.
 *
 * A run at full speed sends tens of events a second; a page refetches what it shows at a human pace.
 * The first event after a quiet spell is applied at once.
 */
export class Invalidator {
  private readonly pending = new Map<string, QueryKey>();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private lastFlush = -Infinity;

  constructor(
    private readonly queryClient: QueryClient,
    private readonly intervalMs = 1000,
    private readonly now: () => number = () => performance.now(),
  ) {}

  applyEvent(event: LiveEvent): void {
    if (event.type === "metrics_added") this.append(event.run, event.points);
    this.markStale(staleKeys(event));
  }

  markStale(keys: readonly QueryKey[]): void {
    for (const key of keys) this.pending.set(JSON.stringify(key), key);
    if (this.pending.size === 0) return;
    const wait = this.lastFlush + this.intervalMs - this.now();
    this.timer ??= setTimeout(() => this.flush(), Math.max(0, wait));
  }

  /** After a gap nothing is known to be fresh. Resolves when what is on screen has been fetched again. */
  async invalidateAll(): Promise<void> {
    this.cancel();
    await this.queryClient.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "me" });
  }

  cancel(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.pending.clear();
  }

  private append(run: number, points: MetricPoints): void {
    for (const query of this.queryClient.getQueryCache().findAll({ queryKey: ["run", run, "metrics"] })) {
      const names = query.queryKey[3];
      if (!Array.isArray(names)) continue;
      this.queryClient.setQueryData<MetricSeries[]>(query.queryKey, (series) =>
        series === undefined ? undefined : withPoints(series, points, names.map(String)),
      );
    }
  }

  private flush(): void {
    const keys = [...this.pending.values()];
    this.cancel();
    this.lastFlush = this.now();
    for (const queryKey of keys) {
      this.queryClient.invalidateQueries({ queryKey }).catch(() => undefined); // errors show in the queries
    }
  }
}
