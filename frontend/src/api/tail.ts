import { queryOptions } from "@tanstack/react-query";

import { answer, api, present } from "./client";
import type { components } from "./schema";

export type Tail = components["schemas"]["Tail"];
export type TailGroup = components["schemas"]["TailGroup"];
export type TailMember = components["schemas"]["TailMember"];
export type TailAttempt = components["schemas"]["TailAttempt"];

export type TailFilter = { stage?: string | undefined; step?: number | undefined };

/** A named step stays as it is; the newest groups move with every trajectory. */
export const tailQuery = (run: number, filter: TailFilter) =>
  queryOptions({
    queryKey: filter.step === undefined ? ["trajectories", run, "tail", filter] : ["run", run, "steps", "tail", filter],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/tail", { params: { path: { run }, query: present(filter) }, signal })),
  });

/** Of a whole stage; fetched again with each step, not with each trajectory. */
export const capsQuery = (run: number, stage: string | undefined) =>
  queryOptions({
    queryKey: ["run", run, "steps", "caps", stage],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/tail/caps", { params: { path: { run }, query: present({ stage }) }, signal })),
  });
