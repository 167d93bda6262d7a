/** One way to the API: the session cookie, the CSRF header on writes, problems as exceptions. */
import createClient from "openapi-fetch";

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

api.use({
  onRequest: ({ request }) => {
    if (request.method !== "GET") request.headers.set("x-csrftoken", cookie("csrftoken"));
    return request;
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
