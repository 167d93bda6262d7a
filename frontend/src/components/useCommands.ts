/** What the palette offers and the keys of every page do. */
import { useMantineColorScheme } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useNavigate, useRouter } from "@tanstack/react-router";

import { PLACES, RUN_TABS } from "../lib/places";
import { setZone, singleKeys, useZone } from "../lib/preferences";
import { useLiveSocket, useLiveState } from "../live/LiveProvider";
import { useActiveRun } from "./useActiveRun";

export type Command = { id: string; group: string; label: string; hint?: string; act: () => void };

export function useActions(): Command[] {
  const { setColorScheme } = useMantineColorScheme();
  const zone = useZone();
  const keys = singleKeys.use();
  const socket = useLiveSocket();
  const isPaused = useLiveState().kind === "paused";
  const group = "Do";
  return [
    { id: "live", group, label: isPaused ? "Continue live updates" : "Pause live updates", hint: ".", act: () => (isPaused ? socket.unpause() : socket.pause()) },
    { id: "permalink", group, label: "Copy the address of this view", hint: "y", act: copyPermalink },
    { id: "light", group, label: "Theme: light", act: () => setColorScheme("light") },
    { id: "dark", group, label: "Theme: dark", act: () => setColorScheme("dark") },
    { id: "system", group, label: "Theme: as the system", act: () => setColorScheme("auto") },
    { id: "zone", group, label: zone === "utc" ? "Times in your zone" : "Times in UTC", act: () => setZone(zone === "utc" ? "local" : "utc") },
    {
      id: "keys", group, label: keys === "on" ? "Turn single keys off" : "Turn single keys on",
      act: () => singleKeys.set(keys === "on" ? "off" : "on"),
    },
  ];
}

export function usePlaces(): Command[] {
  const navigate = useNavigate();
  const router = useRouter();
  const { run } = useActiveRun();
  const tabs = RUN_TABS.map(({ to, label }) => ({
    id: `tab ${label}`, group: `Run ${run ?? ""}`, label, act: () => settle(navigate({ to, params: { run: run ?? 0 } })),
  }));
  const places = PLACES.map(({ label, keys, to }) => ({ id: `place ${label}`, group: "Go to", label, hint: keys, act: () => settle(navigate({ to })) }));
  return [
    ...(run === undefined ? [] : tabs),
    ...places,
    { id: "new", group: "Go to", label: "New run", act: () => settle(navigate({ to: "/runs/new" })) },
    { id: "back", group: "Go to", label: "Back", act: () => router.history.back() },
  ];
}

/** A page that fails to open says so itself. */
export function settle(navigation: Promise<void>): void {
  navigation.catch(() => undefined);
}

function copyPermalink(): void {
  navigator.clipboard.writeText(location.href).then(
    () => notifications.show({ message: "The address of this view is copied." }),
    () => notifications.show({ message: "The browser refused. The address bar has it." }),
  );
}
