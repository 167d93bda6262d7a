import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { get } from "./client";
import type { Page, Trajectory, TrajectoryDetail, Turn } from "./types";

/** The same words in the address of the page and in the query of the API. */
export type TrajectoryFilter = {
  run?: number;
  stage?: string;
  group?: number;
  status?: string;
  stop_reason?: string;
  solved?: string;
};

export const trajectoriesQuery = (filter: TrajectoryFilter) =>
  infiniteQueryOptions({
    queryKey: ["trajectories", filter.run ?? null, filter],
    queryFn: ({ pageParam, signal }) =>
      get<Page<Trajectory>>("/trajectories", { ...filter, limit: 100, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const trajectoryQuery = (id: number) =>
  queryOptions({
    queryKey: ["trajectory", id, "detail"],
    queryFn: ({ signal }) => get<TrajectoryDetail>(`/trajectories/${id}`, {}, signal),
  });

export const turnsQuery = (id: number, attempt?: number) =>
  queryOptions({
    queryKey: ["trajectory", id, "turns", attempt ?? null],
    queryFn: ({ signal }) => get<Page<Turn>>(`/trajectories/${id}/turns`, { attempt, limit: 500 }, signal),
  });
