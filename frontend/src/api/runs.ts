import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { answer, api, present } from "./client";
import type { RunDetail } from "./types";

/** The same words in the address of the page and in the query of the API. */
export type RunFilter = {
  status?: string | undefined;
  name?: string | undefined;
  recipe?: string | undefined;
  project?: string | undefined;
  sort?: string | undefined;
};

export const runsQuery = (filter: RunFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["runs", filter],
    queryFn: ({ pageParam, signal }) =>
      answer(api.GET("/api/v1/runs", { params: { query: present({ ...filter, cursor: pageParam }) }, signal })),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const runQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "detail"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}", { params: { path: { run } }, signal })),
  });

export const metricsQuery = (run: number, names: readonly string[]) =>
  queryOptions({
    queryKey: ["run", run, "metrics", names],
    queryFn: async ({ signal }) => {
      const query = { name: names.join(",") };
      const found = await answer(api.GET("/api/v1/runs/{run}/metrics", { params: { path: { run }, query }, signal }));
      return found.series;
    },
  });

/** The newest 500 optimizer steps, oldest first. */
export const stepsQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "steps"],
    queryFn: async ({ signal }) => {
      const query = { limit: 500 };
      const page = await answer(api.GET("/api/v1/runs/{run}/steps", { params: { path: { run }, query }, signal }));
      return page.results.reverse();
    },
  });

export const eventsQuery = (run: number, filter: { level?: string | undefined; kind?: string | undefined } = {}) =>
  infiniteQueryOptions({
    queryKey: ["run", run, "events", filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, cursor: pageParam });
      return answer(api.GET("/api/v1/runs/{run}/events", { params: { path: { run }, query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });

export const evaluationsQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "evals"],
    queryFn: async ({ signal }) => {
      const found = await answer(api.GET("/api/v1/runs/{run}/evals", { params: { path: { run } }, signal }));
      return found.evaluations;
    },
  });

export const runRecipeQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "recipe"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/recipe", { params: { path: { run } }, signal })),
    staleTime: Infinity,
  });

export const recipesQuery = () =>
  queryOptions({
    queryKey: ["recipes"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/recipes", { params: { query: { limit: 500 } }, signal }));
      return page.results;
    },
  });

export const recipeSchemaQuery = () =>
  queryOptions({
    queryKey: ["recipe-schema"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/recipe-schema", { signal })),
    staleTime: Infinity,
  });

type Checked = { source: string; from_checkpoint?: number };

export function usePreflight(project: string) {
  return useMutation({
    mutationFn: (body: Checked) => answer(api.POST("/api/v1/preflight", { body: { ...body, project } })),
  });
}

/** The key makes a doubled click or a resent request one run. */
export function useLaunchRun(project: string) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ key, ...body }: Checked & { key: string; name?: string; from_run?: number }) =>
      answer(api.POST("/api/v1/runs", { body: { ...body, project }, params: { header: { "Idempotency-Key": key } } })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["runs"] }),
  });
}

export const checkpointsQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "checkpoints"],
    queryFn: async ({ signal }) => {
      const call = { params: { path: { run }, query: { limit: 500 } }, signal };
      const page = await answer(api.GET("/api/v1/runs/{run}/checkpoints", call));
      return page.results;
    },
  });

export const resumesQuery = (run: number) =>
  queryOptions({
    queryKey: ["run", run, "resumes"],
    queryFn: async ({ signal }) => {
      const found = await answer(api.GET("/api/v1/runs/{run}/resumes", { params: { path: { run } }, signal }));
      return found.resumes;
    },
  });

export type RunCommand = RunDetail["commands"][number]["command"];

/** Not optimistic: the button is busy until the server's own state comes back. */
export function useRunCommand(run: number) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ command, reason }: { command: RunCommand; reason: string }) => {
      const call = { params: { path: { run } }, body: { reason } };
      switch (command) {
        case "pause":
          return answer(api.POST("/api/v1/runs/{run}/pause", call));
        case "unpause":
          return answer(api.POST("/api/v1/runs/{run}/unpause", call));
        case "resume":
          return answer(api.POST("/api/v1/runs/{run}/resume", call));
        case "stop":
          return answer(api.POST("/api/v1/runs/{run}/stop", call));
        case "checkpoint":
          return answer(api.POST("/api/v1/runs/{run}/checkpoint", call));
      }
    },
    onSuccess: (detail) => {
      queryClient.setQueryData(runQuery(run).queryKey, detail);
      return queryClient.invalidateQueries({ queryKey: ["runs"] });
    },
  });
}
