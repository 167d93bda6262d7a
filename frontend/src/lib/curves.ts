/** The server's columns → what a chart draws. */
import type { Buckets, Series } from "../api/types";
import { formatDuration } from "./format";
import type { EdgeKind, Prepared } from "./series";

const EDGES = { NaN: "nan", Infinity: "+inf", "-Infinity": "-inf" } as const satisfies Record<string, EdgeKind>;

export function preparedOf({ is_raw, buckets, smooth, ghosts, resumes }: Series): Prepared {
  return {
    x: buckets.x,
    raw: buckets.last,
    mean: smooth,
    ...(is_raw ? {} : { envelope: { low: buckets.low, high: buckets.high } }),
    edges: buckets.non_finite.flatMap(({ index, kind }) => {
      const x = buckets.x[index];
      return x === undefined ? [] : [{ x, kind: EDGES[kind] }];
    }),
    ghosts: ghostsOf(ghosts),
    resumes: resumes.map(({ resume, x, step, reason, downtime_s }) => ({
      resume,
      x,
      note: [`from step ${step}`, `down ${formatDuration(downtime_s)}`, reason].filter((part) => part !== "").join(", "),
    })),
  };
}

/** Of a bucket of ghosts the lowest and the highest, so that no superseded spike is lost. */
function ghostsOf({ x, low, high }: Buckets): Prepared["ghosts"] {
  return x.flatMap((place, index) =>
    [...new Set([low[index], high[index]])].flatMap((value) => (value == null ? [] : [{ x: place, value }])),
  );
}

/** Bands of many curves on one chart would hide each other. */
export function withoutBand({ x, raw, mean, edges, ghosts, resumes }: Prepared): Prepared {
  return { x, raw, mean, edges, ghosts, resumes };
}

/** The group's hue: the same on every page. */
export function colorOf(name: string): string {
  const [prefix = ""] = name.split("/");
  if (name === "time/wait_s") return "--role-rollout";
  return { reward: "--role-rollout", rollout: "--role-rollout", engine: "--role-llm", sandbox: "--role-sandbox" }[prefix] ?? "--role-trainer";
}
