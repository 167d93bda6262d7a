import { useProject } from "../api/me";
import { topics } from "./events";
import { useLive } from "./LiveProvider";

/** Keeps the lists of workers, engines, sandboxes and failures current. */
export function useFleet(): void {
  useLive(topics.fleet(useProject().id));
}
