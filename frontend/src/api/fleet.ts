/** What runs underneath: sandboxes, failures, engines, workers. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { get } from "./client";
import type { Engine, Failure, FailureGroup, Page, Sandbox, Worker } from "./types";

export type SandboxFilter = { run?: number; status?: string; driver?: string };

export const sandboxesQuery = (filter: SandboxFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["sandboxes", filter.run ?? null, filter],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Sandbox>>("/sandboxes", { ...filter, limit: 100, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export type FailureFilter = { run?: number; stage?: string; kind?: string; group?: number };

export const failureGroupsQuery = (filter: FailureFilter = {}) =>
  infiniteQueryOptions({
    queryKey: ["failures", "groups", filter.run ?? null, filter],
    queryFn: ({ pageParam, signal }) =>
      get<Page<FailureGroup>>("/failure-groups", { ...filter, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const failuresQuery = (filter: FailureFilter) =>
  infiniteQueryOptions({
    queryKey: ["failures", "rows", filter.run ?? null, filter],
    queryFn: ({ pageParam, signal }) => get<Page<Failure>>("/failures", { ...filter, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const enginesQuery = (filter: { run?: number } = {}) =>
  queryOptions({
    queryKey: ["engines", filter.run ?? null],
    queryFn: ({ signal }) => get<Page<Engine>>("/engines", { ...filter, limit: 500 }, signal),
  });

export const workersQuery = () =>
  queryOptions({
    queryKey: ["workers"],
    queryFn: ({ signal }) => get<Page<Worker>>("/workers", { limit: 500 }, signal),
  });
