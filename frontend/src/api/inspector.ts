/** An attempt by parts. Every key begins with ["trajectory", id]: what the live socket marks stale. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { codePoints } from "../lib/textRows";
import { answer, api, present } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Skeleton = Schemas["Skeleton"];
export type Tests = Schemas["Tests"];
export type VerdictCheck = Schemas["VerdictCheck"];
export type Tokens = Schemas["Tokens"];
export type LogLine = Schemas["LogLine"];
export type Siblings = Schemas["Siblings"];
export type Sibling = Schemas["Sibling"];
export type TextPart = Schemas["Text"]["part"];

/** Turns of one answer: large enough to fill a screen, small enough to come at once. */
export const TURNS_AT_ONCE = 20;
export const TOKENS_AT_ONCE = 4096;
export const LINES_AT_ONCE = 500;

/** Without a number it is the newest attempt's: it can be asked for before the attempts are known. */
export const skeletonQuery = (trajectory: number, attempt: number | undefined) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "skeleton", attempt ?? "newest"],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/trajectories/{trajectory}/skeleton", { params: { path: { trajectory }, query: present({ attempt }) }, signal })),
  });

/** The texts of TURNS_AT_ONCE turns from an index on; without a number, of the newest attempt. */
export const turnsFromQuery = (trajectory: number, attempt: number | undefined, from: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "turns", attempt ?? "newest", from],
    queryFn: async ({ signal }) => {
      const query = { ...present({ attempt }), from_index: from, limit: TURNS_AT_ONCE };
      const page = await answer(api.GET("/api/v1/trajectories/{trajectory}/turns", { params: { path: { trajectory }, query }, signal }));
      return page.results;
    },
  });

/** One body of a turn by parts; the server says how long the whole is. */
export const textQuery = (trajectory: number, attempt: number, turn: number, part: TextPart) =>
  infiniteQueryOptions({
    queryKey: ["trajectory", trajectory, "text", attempt, turn, part],
    queryFn: ({ pageParam, signal }) => {
      const query = { attempt, part, from: pageParam };
      return answer(api.GET("/api/v1/trajectories/{trajectory}/turns/{turn}/text", { params: { path: { trajectory, turn }, query }, signal }));
    },
    initialPageParam: 0,
    getNextPageParam: ({ start, text, length }) => {
      // The server counts code points, a JavaScript string UTF-16 units.
      const next = start + codePoints(text);
      return next < length && text !== "" ? next : null;
    },
    staleTime: Infinity,
  });

export const patchQuery = (trajectory: number, attempt: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "patch", attempt],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/trajectories/{trajectory}/patch", { params: { path: { trajectory }, query: { attempt } }, signal })),
  });

export const testsQuery = (trajectory: number, attempt: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "tests", attempt],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/trajectories/{trajectory}/tests", { params: { path: { trajectory }, query: { attempt } }, signal })),
  });

export const tokensQuery = (trajectory: number, attempt: number, from: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "tokens", attempt, from],
    queryFn: ({ signal }) => {
      const query = { attempt, from, to: from + TOKENS_AT_ONCE };
      return answer(api.GET("/api/v1/trajectories/{trajectory}/tokens", { params: { path: { trajectory }, query }, signal }));
    },
    staleTime: 60_000,
  });

export const logQuery = (trajectory: number, attempt: number, from: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "log", attempt, from],
    queryFn: ({ signal }) => {
      const query = { attempt, from, limit: LINES_AT_ONCE };
      return answer(api.GET("/api/v1/trajectories/{trajectory}/log", { params: { path: { trajectory }, query }, signal }));
    },
  });

/** The lines that match, up to 2,000; num_hits counts all. */
export const logSearchQuery = (trajectory: number, attempt: number, q: string, isRegex: boolean) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "log-search", attempt, q, isRegex],
    queryFn: ({ signal }) => {
      const query = present({ attempt, q, regex: isRegex, limit: 2000 });
      return answer(api.GET("/api/v1/trajectories/{trajectory}/log", { params: { path: { trajectory }, query }, signal }));
    },
    enabled: q !== "",
    retry: false,
  });

export const siblingsQuery = (trajectory: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "siblings"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/trajectories/{trajectory}/siblings", { params: { path: { trajectory } }, signal })),
  });

export const boxesQuery = (trajectory: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "sandboxes"],
    queryFn: async ({ signal }) => {
      const page = await answer(api.GET("/api/v1/trajectories/{trajectory}/sandboxes", { params: { path: { trajectory } }, signal }));
      return page.results;
    },
  });

export const atifPath = (trajectory: number, attempt: number) => `/api/v1/trajectories/${trajectory}/atif?attempt=${attempt}`;

/** The document as the server wrote it: it is read, copied and saved, never walked. */
export const atifQuery = (trajectory: number, attempt: number) =>
  queryOptions({
    queryKey: ["trajectory", trajectory, "atif", attempt],
    queryFn: ({ signal }) =>
      answer<string>(api.GET("/api/v1/trajectories/{trajectory}/atif", { params: { path: { trajectory }, query: { attempt } }, parseAs: "text", signal })),
  });
