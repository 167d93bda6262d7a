import { Button } from "@mantine/core";

import { Problem } from "../api/problem";
import { Icon } from "./Icon";
import classes from "./States.module.css";

/** What went wrong in the server's own words, and a way to try again. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  return (
    <div className={classes.state} role="alert">
      <h2 className={classes.failed}>
        <Icon name="alert" /> {titleOf(error)}
      </h2>
      {error instanceof Problem && error.errors.length > 0 && (
        <ul>
          {error.errors.map((field) => (
            <li key={field.pointer + field.message}>
              <code>{field.pointer}</code> {field.message}
            </li>
          ))}
        </ul>
      )}
      {error instanceof Problem && error.code === "unreachable" && (
        <p>What is on screen may be old. The page reconnects by itself; the stack is started with the command of the README.</p>
      )}
      {onRetry !== undefined && (
        <Button variant="default" size="xs" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function titleOf(error: unknown): string {
  if (error instanceof Problem) return error.message;
  return error instanceof Error ? `This page failed: ${error.message}` : "This page failed.";
}
