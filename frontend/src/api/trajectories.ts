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
  outcome?: string | undefined;
  repository?: string | undefined;
  turns?: string | undefined;
  tokens?: string | undefined;
  duration?: string | undefined;
  staleness?: string | undefined;
  driver?: string | undefined;
  failure?: string | undefined;
  is_valid?: string | undefined;
  is_zero_gradient?: string | undefined;
  q?: string | undefined;
  step?: number | undefined;
  engine?: number | undefined;
};

export const trajectoriesQuery = (run: number, filter: TrajectoryFilter & { sort?: string | undefined; cols?: string | undefined }) =>
  infiniteQueryOptions({
    queryKey: ["trajectories", run, filter],
    queryFn: ({ pageParam, signal }) => {
      const query = present({ ...typed(filter), cols: undefined, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/runs/{run}/trajectories", { params: { path: { run }, query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

/** Totals of the whole filter, and how many rows each value of a facet would leave. */
export const trajectoryFacetsQuery = (run: number, filter: TrajectoryFilter) =>
  queryOptions({
    queryKey: ["trajectories", run, "facets", filter],
    queryFn: ({ signal }) => {
      const query = present(typed(filter));
      return answer(api.GET("/api/v1/runs/{run}/trajectories/facets", { params: { path: { run }, query }, signal }));
    },
  });

/** Flags are words in an address. */
function typed<Filter extends TrajectoryFilter>({ is_valid, is_zero_gradient, ...rest }: Filter) {
  const flag = (text: string | undefined) => (text === undefined ? undefined : text === "true");
  return { ...rest, is_valid: flag(is_valid), is_zero_gradient: flag(is_zero_gradient) };
}

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
