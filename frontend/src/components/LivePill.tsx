import { Button, Popover } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";

import { workersQuery } from "../api/fleet";
import { eventsQuery } from "../api/runs";
import { ABSENT, formatDuration } from "../lib/format";
import type { IconName, Tone } from "../lib/status";
import { useLiveSocket, useLiveState } from "../live/LiveProvider";
import type { LiveState } from "../live/socket";
import { Icon } from "./Icon";
import classes from "./LivePill.module.css";
import { Ago } from "./Time";
import { useActiveRun } from "./useActiveRun";

/** How fresh the page is; what the run does is told by its own badge. A click shows the clocks, pauses and continues. */
export function LivePill() {
  const state = useLiveState();
  const { label, tone, icon } = describeLive(state);
  const [isOpen, popover] = useDisclosure();
  return (
    <Popover opened={isOpen} onChange={(open) => (open ? popover.open() : popover.close())} position="bottom-end" width={300} trapFocus returnFocus>
      <Popover.Target>
        <button type="button" className={classes.pill} data-tone={tone} aria-label={`Live updates: ${label}`} onClick={popover.toggle}>
          <Icon name={icon} size={12} />
          {label}
        </button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Live updates">
        <Clocks state={state} />
      </Popover.Dropdown>
    </Popover>
  );
}

/** Three clocks, because each may stand still alone: who makes the data, what is stored of it, what arrives here. */
function Clocks({ state }: { state: LiveState }) {
  const socket = useLiveSocket();
  const { run } = useActiveRun();
  const heardAt = useSyncExternalStore(socket.onChange, socket.getHeardAt);
  const workers = useQuery(workersQuery());
  const events = useInfiniteQuery({ ...eventsQuery(run ?? 0), enabled: run !== undefined });
  const heartbeat = workers.data?.map(({ last_seen_at }) => last_seen_at).sort().at(-1) ?? null;
  const stored = events.data?.pages[0]?.results[0]?.at ?? null;
  const isPaused = state.kind === "paused";
  return (
    <div className={classes.clocks}>
      <p>{describeLive(state).help}</p>
      <dl>
        <div>
          <dt>Producers: newest heartbeat of a worker</dt>
          <dd>{heartbeat === null ? ABSENT : <Ago at={heartbeat} />}</dd>
        </div>
        <div>
          <dt>Store: newest event{run === undefined ? "" : ` of run ${run}`}</dt>
          <dd>{stored === null ? ABSENT : <Ago at={stored} />}</dd>
        </div>
        <div>
          <dt>This page: last word of the server</dt>
          <dd>{heardAt === null ? ABSENT : <Ago at={heardAt} />}</dd>
        </div>
      </dl>
      <Button data-autofocus variant="default" size="xs" onClick={() => (isPaused ? socket.unpause() : socket.pause())}>
        {isPaused ? "Continue" : "Pause"}
      </Button>
      <p>A run that has ended makes no new data: its clocks stand still, and this page is live all the same.</p>
    </div>
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
        help: "The page stands still until you continue.",
      };
    case "stale":
      return {
        label: `Stale ${formatDuration(state.seconds)}`, tone: "failed", icon: "alert",
        help: "No connection: what is on screen is that old.",
      };
  }
}
