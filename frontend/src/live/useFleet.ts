import { useSuspenseQuery } from "@tanstack/react-query";

import { sessionQuery } from "../api/session";
import { topics } from "./events";
import { useLive } from "./LiveProvider";

/** Keeps the lists of workers, engines, sandboxes and failures current. */
export function useFleet(): void {
  const { data: session } = useSuspenseQuery(sessionQuery());
  useLive(topics.fleet(session.project.id));
}
