/** One way to the API: the session cookie, the CSRF header on writes, problems as exceptions. */
import { toProblem } from "./problem";

const BASE = "/api/v1";

export type Query = Record<string, string | number | boolean | null | undefined>;

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return send<T>(`${path}${queryString(query)}`, { method: "GET", ...(signal ? { signal } : {}) });
}

export async function post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> {
  return send<T>(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrftoken": cookie("csrftoken"), ...headers },
    body: JSON.stringify(body),
  });
}

async function send<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(BASE + path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw toProblem(0, null);
  }
  const body: unknown = response.status === 204 ? undefined : await response.json().catch(() => null);
  if (!response.ok) throw toProblem(response.status, body);
  return body as T; // the schema of the API is checked where it is generated, not at run time
}

/** "?a=1&b=x", without absent and empty values. */
export function queryString(query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `?${text}` : "";
}

export function cookie(name: string): string {
  const pair = document.cookie.split("; ").find((one) => one.startsWith(`${name}=`));
  return pair === undefined ? "" : decodeURIComponent(pair.slice(name.length + 1));
}
