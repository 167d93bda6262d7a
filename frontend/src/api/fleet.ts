/** What runs underneath: sandboxes, failures, engines, workers, queues, limits. */
import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { answer, api, present } from "./client";

export type SandboxFilter = {
  run?: number | undefined; status?: string | undefined; driver?: string | undefined; is_orphan?: boolean | undefined; sort?: string | undefined;
};

export const sandboxesQuery = (filter: SandboxFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["sandboxes", "list", filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/sandboxes", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });

export const sandboxFleetQuery = (run?: number) =>
  queryOptions({
    queryKey: ["sandboxes", "fleet", run ?? null],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/sandboxes/fleet", { params: { query: present({ run }) }, signal })),
  });

export const sandboxCarpetQuery = (run?: number) =>
  queryOptions({
    queryKey: ["sandboxes", "carpet", run ?? null],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/sandboxes/carpet", { params: { query: present({ run }) }, signal })),
  });

export const sandboxQuery = (sandbox: number) =>
  queryOptions({
    queryKey: ["sandboxes", "one", sandbox],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/sandboxes/{sandbox}", { params: { path: { sandbox } }, signal })),
  });

export type FailureFilter = {
  run?: number | undefined; stage?: string | undefined; kind?: string | undefined; state?: string | undefined; sort?: string | undefined;
};

export const failureGroupsQuery = (filter: FailureFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["failures", "groups", filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, cursor: pageParam });
      return answer(api.GET("/api/v1/failures", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });

export const failureGroupQuery = (group: number, run?: number) =>
  queryOptions({
    queryKey: ["failures", "group", group, run ?? null],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/failures/{group}", { params: { path: { group }, query: present({ run }) }, signal })),
  });

export const failuresQuery = (group: number, filter: { run?: number | undefined }) =>
  infiniteQueryOptions({
    queryKey: ["failures", "members", group, filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/failures/{group}/members", { params: { path: { group }, query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export type GroupCommand =
  | { command: "resolve" | "reopen"; reason: string }
  | { command: "ignore"; reason: string; until: string };

/** Not optimistic: the state changes when the server has said so. */
export function useGroupCommand(group: number) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (given: GroupCommand) => {
      const params = { path: { group } };
      const { reason } = given;
      switch (given.command) {
        case "resolve":
          return answer(api.POST("/api/v1/failures/{group}/resolve", { params, body: { reason } }));
        case "reopen":
          return answer(api.POST("/api/v1/failures/{group}/reopen", { params, body: { reason } }));
        case "ignore":
          return answer(api.POST("/api/v1/failures/{group}/ignore", { params, body: { reason, until: given.until } }));
      }
    },
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["failures"] }),
  });
}

export const enginesQuery = (filter: { run?: number | undefined; status?: string | undefined } = {}) =>
  queryOptions({
    queryKey: ["engines", filter],
    queryFn: async ({ signal }) => {
      const query = present({ ...filter, limit: 500 });
      const page = await answer(api.GET("/api/v1/engines", { params: { query }, signal }));
      return page.results;
    },
  });

export const workersQuery = () =>
  queryOptions({
    queryKey: ["workers", "list"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/workers", { params: { query: { limit: 500 } }, signal }));
      return page.results;
    },
  });

export function useWorkerCommand(worker: number) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ command, reason }: { command: "drain" | "undrain"; reason: string }) => {
      const call = { params: { path: { worker } }, body: { reason } };
      return answer(
        command === "drain" ? api.POST("/api/v1/workers/{worker}/drain", call) : api.POST("/api/v1/workers/{worker}/undrain", call),
      );
    },
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["workers"] }),
  });
}

export const nodesQuery = () =>
  queryOptions({
    queryKey: ["workers", "nodes"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/nodes", { params: { query: { limit: 500 } }, signal }));
      return page.results;
    },
  });

export const queuesQuery = () =>
  queryOptions({
    queryKey: ["queues"],
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/queues", { signal }))).queues,
  });

export const limitsQuery = (filter: { layer?: string | undefined } = {}) =>
  queryOptions({
    queryKey: ["limits", filter],
    queryFn: async ({ signal }) => {
      const query = present({ ...filter, limit: 500 });
      return (await answer(api.GET("/api/v1/limits", { params: { query }, signal }))).results;
    },
  });
