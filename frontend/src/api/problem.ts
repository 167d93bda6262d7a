/** The API's one error shape (RFC 9457 problem+json). Pages branch on `code` only. */
import type { components } from "./schema";

type ProblemBody = components["schemas"]["Problem"];

export class Problem extends Error {
  readonly code: string;
  readonly status: number;
  readonly errors: ProblemBody["errors"];

  constructor(body: Omit<ProblemBody, "type">) {
    super(body.title);
    this.name = "Problem";
    this.code = body.code;
    this.status = body.status;
    this.errors = body.errors;
  }
}

/** A connection that failed has no status and no body: it is a problem with a name all the same. */
export function toProblem(status: number, body: unknown): Problem {
  if (isProblemBody(body)) return new Problem(body);
  return new Problem({
    code: status === 0 ? "unreachable" : "unexpected",
    title: status === 0 ? "The server cannot be reached." : `The server answered ${status}.`,
    status,
    errors: [],
  });
}

function isProblemBody(body: unknown): body is ProblemBody {
  return (
    typeof body === "object" && body !== null &&
    "code" in body && typeof body.code === "string" &&
    "title" in body && typeof body.title === "string" &&
    "status" in body && typeof body.status === "number" &&
    "errors" in body && Array.isArray(body.errors)
  );
}
