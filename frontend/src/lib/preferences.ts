/** What a person prefers, kept in the browser: the time zone of all stamps. The theme is Mantine's. */
import { useSyncExternalStore } from "react";

import type { Zone } from "./format";

const KEY = "longtail.zone";
const listeners = new Set<() => void>();

function readZone(): Zone {
  return localStorage.getItem(KEY) === "utc" ? "utc" : "local";
}

export function setZone(zone: Zone): void {
  localStorage.setItem(KEY, zone);
  for (const listener of listeners) listener();
}

export function useZone(): Zone {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, readZone);
}
