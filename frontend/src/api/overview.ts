/** A run at a glance, one of its steps from near, and what kinds of events it wrote. */
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";

import { answer, api } from "./client";
import { runRecipeQuery } from "./runs";

export const overviewQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "overview"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/overview", { params: { path: { run } }, signal })),
  });

export const stepDetailQuery = (run: number, step: number) =>
  queryOptions({
    queryKey: ["run", run, "steps", "detail", step],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/steps/{step}", { params: { path: { run, step } }, signal })),
    placeholderData: keepPreviousData,
  });

export const eventKindsQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "events", "kinds"],
    queryFn: async ({ signal }) => {
      const found = await answer(api.GET("/api/v1/runs/{run}/event-kinds", { params: { path: { run } }, signal }));
      return found.kinds;
    },
  });

/** What was launched, with every default. */
export const useRecipe = (run: number) => useQuery(runRecipeQuery(run)).data?.recipe;
export type FullRecipe = NonNullable<ReturnType<typeof useRecipe>>;
