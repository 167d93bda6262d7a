import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { Problem } from "../api/problem";
import { Icon } from "./Icon";
import classes from "./States.module.css";

/** What went wrong in the server's own words, what may be the reason, and a way on. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const isOld = isOfAnOlderBuild(error);
  return (
    <div className={classes.state} role="alert">
      <h2 className={classes.failed}>
        <Icon name="alert" /> {isOld ? "Longtail was updated while this page was open." : titleOf(error)}
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
      <p>{isOld ? "Load the page again to get its newest version; its address keeps what you see." : adviceOn(error)}</p>
      <div className={classes.ways}>
        {isOld ? (
          <Button variant="default" onClick={() => location.reload()}>
            Load again
          </Button>
        ) : (
          onRetry !== undefined && (
            <Button variant="default" onClick={onRetry}>
              Try again
            </Button>
          )
        )}
        <Link to="/runs">All runs</Link>
      </div>
    </div>
  );
}

export function titleOf(error: unknown): string {
  if (error instanceof Problem) return error.message;
  return error instanceof Error ? `This page failed: ${error.message}` : "This page failed.";
}

function adviceOn(error: unknown): string {
  if (!(error instanceof Problem)) return "This is a fault of the dashboard. The browser's console says where; other pages go on working.";
  if (error.code === "unreachable") {
    return "What is on screen may be old. The page reconnects by itself; if the stack is down, its command is “make up”.";
  }
  if (error.status === 403) return "Your role in this project does not allow it. An admin of the project can change that.";
  if (error.status === 404) return "It may be gone, or of a project that you are not in. An admin of that project can add you.";
  if (error.status === 400) return "The address asks for something that the server does not know. Open the page anew and set the filters there.";
  return "The server's log says more: logs/web.log in the folder of its data.";
}

/** A page's code has a hashed name; after an update of the server the old one is gone. */
function isOfAnOlderBuild(error: unknown): boolean {
  return error instanceof TypeError && /dynamically imported module|module script/i.test(error.message) && navigator.onLine;
}
