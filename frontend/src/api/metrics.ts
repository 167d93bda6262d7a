/** Curves as charts draw them: named, on an axis, smoothed and bucketed by the server. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import type { XAxis } from "../lib/axis";
import { answer, api, present } from "./client";

export type SeriesChoice = {
  x?: XAxis | undefined;
  smooth?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
  buckets?: number | undefined;
};

export const metricNamesQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "metric-names"],
    queryFn: async ({ signal }) => {
      const found = await answer(api.GET("/api/v1/runs/{run}/metric-names", { params: { path: { run } }, signal }));
      return found.metrics;
    },
  });

export const seriesQuery = (run: number, names: readonly string[], choice: SeriesChoice = {}) =>
  queryOptions({
    queryKey: ["run", run, "series", names, choice],
    queryFn: async ({ signal }) => {
      const query = { ...present(choice), name: names.join(",") };
      const found = await answer(api.GET("/api/v1/runs/{run}/series", { params: { path: { run }, query }, signal }));
      return found.series;
    },
    placeholderData: keepPreviousData,
  });

/** Where the server makes a file of every point. */
export function seriesFile(run: number, name: string, { x, from, to }: SeriesChoice): string {
  const query = new URLSearchParams({ name, format: "csv" });
  for (const [key, value] of Object.entries(present({ x, from, to }))) query.set(key, String(value));
  return `/api/v1/runs/${run}/series/export?${query.toString()}`;
}
