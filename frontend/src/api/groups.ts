import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answer, api, present } from "./client";

/** The same words in the address of the page and in the query of the API. */
export type GroupFilter = {
  stage?: string | undefined;
  status?: string | undefined;
  zero_gradient?: string | undefined;
  has_invalid?: string | undefined;
  task?: string | undefined;
  repository?: string | undefined;
  step?: number | undefined;
  sort?: string | undefined;
};

export const groupsQuery = (run: number, { has_invalid, ...filter }: GroupFilter) =>
  infiniteQueryOptions({
    queryKey: ["run", run, "groups", { ...filter, has_invalid }],
    queryFn: ({ pageParam, signal }) => {
      const flag = has_invalid === undefined ? undefined : has_invalid === "true";
      const query = present({ ...filter, has_invalid: flag, limit: 100, cursor: pageParam });
      return answer(api.GET("/api/v1/runs/{run}/groups", { params: { path: { run }, query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
  });

/** A group with its members side by side. */
export const groupQuery = (run: number, group: number) =>
  queryOptions({
    queryKey: ["run", run, "groups", "detail", group],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/groups/{group_id}", { params: { path: { group_id: group } }, signal })),
  });
