import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from "react";

import { Invalidator, staleKeysOfTopic } from "./applyEvent";
import { LiveSocket, type LiveState } from "./socket";

const LiveContext = createContext<LiveSocket | null>(null);

export function LiveProvider({ children, onUnauthenticated }: { children: ReactNode; onUnauthenticated: () => void }) {
  const queryClient = useQueryClient();
  const [socket] = useState(() => {
    const invalidator = new Invalidator(queryClient);
    return new LiveSocket({
      connect: () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live`),
      onEvent: (event) => invalidator.applyEvent(event),
      onGap: () => invalidator.invalidateAll(),
      onMoved: (topic, cursors) => invalidator.markStale(staleKeysOfTopic(topic, cursors)),
      onUnauthenticated,
    });
  });

  useEffect(() => {
    const goOffline = () => socket.goOffline();
    const goOnline = () => socket.goOnline();
    socket.start();
    window.addEventListener("offline", goOffline);
    window.addEventListener("online", goOnline);
    window.addEventListener("focus", goOnline);
    return () => {
      socket.stop();
      window.removeEventListener("offline", goOffline);
      window.removeEventListener("online", goOnline);
      window.removeEventListener("focus", goOnline);
    };
  }, [socket]);

  return <LiveContext value={socket}>{children}</LiveContext>;
}

export function useLiveSocket(): LiveSocket {
  const socket = useContext(LiveContext);
  if (socket === null) throw new Error("useLiveSocket needs a LiveProvider above it.");
  return socket;
}

/** Keeps what the page shows current while it is open. */
export function useLive(topic: string): void {
  const socket = useLiveSocket();
  useEffect(() => socket.follow(topic), [socket, topic]);
}

export function useLiveState(): LiveState {
  const socket = useLiveSocket();
  return useSyncExternalStore(socket.onChange, socket.getState);
}
