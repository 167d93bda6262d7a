import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { get, post } from "./client";
import type { Group, MetricSeries, Page, Preflight, Recipe, Run, RunEvent, Step } from "./types";

export const runsQuery = (filter: { status?: string } = {}) =>
  infiniteQueryOptions({
    queryKey: ["runs", "list", filter],
    queryFn: ({ pageParam, signal }) => get<Page<Run>>("/runs", { ...filter, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const runQuery = (id: number) =>
  queryOptions({
    queryKey: ["run", id, "detail"],
    queryFn: ({ signal }) => get<Run>(`/runs/${id}`, {}, signal),
  });

export const metricsQuery = (id: number, names: readonly string[]) =>
  queryOptions({
    queryKey: ["run", id, "metrics", names],
    queryFn: ({ signal }) => get<MetricSeries[]>(`/runs/${id}/metrics`, { names: names.join(",") }, signal),
  });

export const stepsQuery = (id: number) =>
  queryOptions({
    queryKey: ["run", id, "steps"],
    queryFn: ({ signal }) => get<Page<Step>>(`/runs/${id}/steps`, { limit: 500 }, signal),
  });

export const eventsQuery = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["run", id, "events"],
    queryFn: ({ pageParam, signal }) => get<Page<RunEvent>>(`/runs/${id}/events`, { cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const groupsQuery = (id: number, filter: { stage?: string; status?: string }) =>
  infiniteQueryOptions({
    queryKey: ["run", id, "groups", filter],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Group>>("/groups", { run: id, ...filter, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const recipeSourceQuery = (id: number) =>
  queryOptions({
    queryKey: ["run", id, "recipe"],
    queryFn: ({ signal }) => get<{ source: string }>(`/runs/${id}/recipe`, {}, signal),
  });

export const recipesQuery = () =>
  queryOptions({
    queryKey: ["recipes"],
    queryFn: ({ signal }) => get<Page<Recipe>>("/recipes", {}, signal),
  });

export function usePreflight() {
  return useMutation({
    mutationFn: (recipe: { source: string; seed?: number }) => post<Preflight>("/preflight", recipe),
  });
}

/** The key makes a doubled click or a resent request one run. */
export function useLaunchRun() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ key, ...body }: { key: string; source: string; seed?: number; name?: string }) =>
      post<Run>("/runs", body, { "idempotency-key": key }),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["runs"] }),
  });
}

export type RunCommand = "pause" | "resume" | "stop";

/** Not optimistic: the page shows the command as pending until the server's state says otherwise. */
export function useRunCommand(id: number) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ command, reason }: { command: RunCommand; reason: string }) =>
      post<Run>(`/runs/${id}/${command}`, { reason }),
    onSuccess: (run) => {
      queryClient.setQueryData(runQuery(id).queryKey, run);
      return queryClient.invalidateQueries({ queryKey: ["runs"] });
    },
  });
}
