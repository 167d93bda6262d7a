/** One way to the API: the session cookie, the CSRF header on writes, problems as exceptions. */
import createClient from "openapi-fetch";

import { chosenProject } from "../lib/preferences";
import { toProblem } from "./problem";
import type { paths } from "./schema";

export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: "same-origin",
  fetch: async (request) => {
    try {
      return await fetch(request);
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw toProblem(0, null);
    }
  },
});

/** Lists of these are of the chosen project. */
const OF_A_PROJECT = ["/api/v1/runs", "/api/v1/recipes", "/api/v1/task-sets"];

api.use({
  onRequest: ({ request, schemaPath }) => {
    if (request.method !== "GET") {
      request.headers.set("x-csrftoken", cookie("csrftoken"));
      return request;
    }
    const project = chosenProject.get();
    if (project === undefined || !OF_A_PROJECT.includes(schemaPath)) return request;
    const url = new URL(request.url);
    if (!url.searchParams.has("project")) url.searchParams.set("project", project);
    return new Request(url, request);
  },
});

/** The body of a good answer; a Problem is thrown for any other. */
export async function answer<Data>(call: Promise<{ data?: Data; error?: unknown; response: Response }>): Promise<Data> {
  const { data, error, response } = await call;
  if (!response.ok) throw toProblem(response.status, error);
  return data as Data; // undefined only where the schema says that there is no body
}

function cookie(name: string): string {
  const pair = document.cookie.split("; ").find((one) => one.startsWith(`${name}=`));
  return pair === undefined ? "" : decodeURIComponent(pair.slice(name.length + 1));
}

/** Filters without the absent ones: a query holds what was asked for, and the API refuses words it does not know. */
export function present<Query extends Record<string, unknown>>(query: Query): { [Key in keyof Query]?: NonNullable<Query[Key]> } {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return Object.fromEntries(entries) as { [Key in keyof Query]?: NonNullable<Query[Key]> }; // entries lose the keys' types
}
