/** Task sets, tasks and the comparison of evaluations on them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { answer, api, present } from "./client";

export const taskSetsQuery = () =>
  queryOptions({
    queryKey: ["task-sets", "list"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/task-sets", { params: { query: { limit: 500 } }, signal }));
      return page.results;
    },
  });

export const taskSetQuery = (set: number) =>
  queryOptions({
    queryKey: ["task-sets", set, "detail"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/task-sets/{task_set}", { params: { path: { task_set: set } }, signal })),
  });

export type TaskFilter = {
  repository?: string | undefined; is_quarantined?: boolean | undefined; bucket?: string | undefined; sort?: string | undefined;
};

export const tasksQuery = (set: number, filter: TaskFilter) =>
  infiniteQueryOptions({
    queryKey: ["task-sets", set, "tasks", filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/task-sets/{task_set}/tasks", { params: { path: { task_set: set }, query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });

export const taskQuery = (set: number, task: number) =>
  queryOptions({
    queryKey: ["task-sets", set, "task", task],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/task-sets/{task_set}/tasks/{task}", { params: { path: { task_set: set, task } }, signal })),
  });

export function useTaskCommand(set: number, task: number) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ command, reason }: { command: "quarantine" | "release"; reason: string }) => {
      const call = { params: { path: { task_set: set, task } }, body: { reason } };
      return answer(
        command === "quarantine"
          ? api.POST("/api/v1/task-sets/{task_set}/tasks/{task}/quarantine", call)
          : api.POST("/api/v1/task-sets/{task_set}/tasks/{task}/release", call),
      );
    },
    onSuccess: (detail) => {
      queryClient.setQueryData(taskQuery(set, task).queryKey, detail);
      return queryClient.invalidateQueries({ queryKey: ["task-sets"] });
    },
  });
}

export const evalArmsQuery = () =>
  queryOptions({
    queryKey: ["runs", "evals"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/evals", { params: { query: { limit: 200 } }, signal }));
      return page.results;
    },
  });

/** Under "runs": a stage that ends makes it stale. */
export const evalCompareQuery = (arms: string) =>
  queryOptions({
    queryKey: ["runs", "evals", "compare", arms],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/evals/compare", { params: { query: { arms } }, signal })),
    placeholderData: keepPreviousData,
  });
