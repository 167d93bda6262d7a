/** What a person prefers, kept in the browser. The theme is Mantine's. */
import { useSyncExternalStore } from "react";

import type { Zone } from "./format";

type Preference<Value> = { get: () => Value; set: (value: Value) => void; use: () => Value };

function preference<Value extends string | undefined>(key: string, parse: (stored: string | null) => Value): Preference<Value> {
  const listeners = new Set<() => void>();
  const get = () => parse(localStorage.getItem(key));
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    get,
    set: (value) => {
      if (value === undefined) localStorage.removeItem(key);
      else localStorage.setItem(key, value);
      for (const listener of listeners) listener();
    },
    use: () => useSyncExternalStore(subscribe, get),
  };
}

/** The zone of all stamps. */
export const zonePreference = preference<Zone>("longtail.zone", (stored) => (stored === "utc" ? "utc" : "local"));
export const setZone = zonePreference.set;
export const useZone = zonePreference.use;

/** Single keys are in the way of who dictates or leans on the keyboard (WCAG 2.1.4). */
export const singleKeys = preference<"on" | "off">("longtail.keys", (stored) => (stored === "off" ? "off" : "on"));

/** The slug of the project that lists are of; the first of the person's own until one is chosen. */
export const chosenProject = preference<string | undefined>("longtail.project", (stored) => stored ?? undefined);

/** The run that was looked at last. */
export const lastRun = preference<string | undefined>("longtail.run", (stored) => stored ?? undefined);
