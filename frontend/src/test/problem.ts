import { HttpResponse } from "msw";

/** A refusal of the API, in its one error shape. */
export function problem(status: number, code: string, title: string) {
  return HttpResponse.json(
    { type: "about:blank", status, code, title, errors: [] },
    { status, headers: { "content-type": "application/problem+json" } },
  );
}
