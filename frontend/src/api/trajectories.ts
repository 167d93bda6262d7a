import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answer, api, present } from "./client";

/** The same words in the address of the page and in the query of the API. */
export type TrajectoryFilter = {
  stage?: string | undefined;
  group?: number | undefined;
  status?: string | undefined;
  /** "gte:1" is solved, "lt:1" is not. */
  reward?: string | undefined;
  stop_reason?: string | undefined;
  task?: string | undefined;
};

export const trajectoriesQuery = (run: number, filter: TrajectoryFilter) =>
  infiniteQueryOptions({
    queryKey: ["trajectories", run, filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...filter, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/runs/{run}/trajectories", { params: { path: { run }, query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

export const trajectoryQuery = (trajectory: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "detail"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/trajectories/{trajectory}", { params: { path: { trajectory } }, signal })),
  });

/** All turns of an attempt: a cap of turns keeps them few (the article's is 80). */
export const turnsQuery = (trajectory: number, attempt: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "turns", attempt],
    queryFn: async ({ signal }) => {
      const call = { params: { path: { trajectory }, query: { attempt, limit: 500 } }, signal };
      const page = await answer(api.GET("/api/v1/trajectories/{trajectory}/turns", call));
      return page.results;
    },
  });
