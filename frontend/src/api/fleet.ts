/** What runs underneath: sandboxes, failures, engines, workers. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answer, api, present } from "./client";

export type SandboxFilter = { run?: number | undefined; status?: string | undefined; driver?: string | undefined };

export const sandboxesQuery = (filter: SandboxFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["sandboxes", filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/sandboxes", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export type FailureFilter = { run?: number | undefined; stage?: string | undefined; kind?: string | undefined };

export const failureGroupsQuery = (filter: FailureFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["failures", "groups", filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, cursor: pageParam });
      return answer(api.GET("/api/v1/failures", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const failureGroupQuery = (group: number) =>
  queryOptions({
    queryKey: ["failures", "group", group],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/failures/{group}", { params: { path: { group } }, signal })),
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

export const enginesQuery = (filter: { run?: number | undefined } = {}) =>
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
    queryKey: ["workers"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/workers", { params: { query: { limit: 500 } }, signal }));
      return page.results;
    },
  });
