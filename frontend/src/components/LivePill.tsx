import { useLiveSocket, useLiveState } from "../live/LiveProvider";
import type { LiveState } from "../live/socket";
import type { IconName, Tone } from "../lib/status";
import { formatDuration } from "../lib/format";
import { Icon } from "./Icon";
import classes from "./LivePill.module.css";

/** How fresh the page is; what the run does is told by its own badge. A click pauses and continues. */
export function LivePill() {
  const socket = useLiveSocket();
  const state = useLiveState();
  const { label, tone, icon, help } = describeLive(state);
  const isPaused = state.kind === "paused";
  return (
    <button
      type="button"
      className={classes.pill}
      data-tone={tone}
      title={`${help} Click to ${isPaused ? "continue" : "pause"}.`}
      aria-label={`Live updates: ${label}. ${isPaused ? "Continue" : "Pause"}`}
      onClick={() => (isPaused ? socket.unpause() : socket.pause())}
    >
      <Icon name={icon} size={12} />
      {label}
    </button>
  );
}

export function describeLive(state: LiveState): { label: string; tone: Tone; icon: IconName; help: string } {
  switch (state.kind) {
    case "live":
      return { label: "Live", tone: "solved", icon: "dot", help: "Changes arrive as they happen." };
    case "connecting":
      return { label: "Connecting", tone: "waiting", icon: "ring", help: "The socket is opening." };
    case "delayed":
      return {
        label: `Delayed ${formatDuration(state.seconds)}`, tone: "paused", icon: "ring",
        help: "The socket is open, but the server has said nothing for a while.",
      };
    case "reconnecting":
      return {
        label: `Reconnecting (${state.attempt})`, tone: "failed", icon: "arrow",
        help: "The connection was lost; the page tries again by itself.",
      };
    case "catching_up":
      return { label: "Catching up", tone: "running", icon: "arrow", help: "Fetching what changed meanwhile." };
    case "paused":
      return {
        label: state.buffered > 0 ? `Paused (${state.buffered} waiting)` : "Paused", tone: "paused", icon: "pause",
        help: "The page stands still.",
      };
    case "stale":
      return {
        label: `Stale ${formatDuration(state.seconds)}`, tone: "failed", icon: "alert",
        help: "No connection: what is on screen is that old.",
      };
  }
}
