import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { eventsQuery } from "../../api/runs";
import type { EventLevel, RunEvent } from "../../api/types";
import { Icon } from "../../components/Icon";
import { Time } from "../../components/Time";
import type { IconName } from "../../lib/status";
import classes from "./EventFeed.module.css";

/** The newest lines of the run's feed. */
export function EventFeed({ run, limit }: { run: number; limit: number }) {
  const { data } = useInfiniteQuery(eventsQuery(run));
  const events = data?.pages.flatMap((page) => page.results).slice(0, limit) ?? [];
  return (
    <section className={classes.feed} aria-label="Newest events">
      <header className={classes.header}>
        <h2>Events</h2>
        <Link to="/runs/$run/events" params={{ run }}>
          All
        </Link>
      </header>
      {events.length === 0 && <p className={classes.nothing}>Nothing has happened yet</p>}
      <EventList events={events} />
    </section>
  );
}

const LEVEL_ICON: Record<EventLevel, IconName> = { info: "dot", warning: "alert", error: "alert" };

export function EventList({ events }: { events: readonly RunEvent[] }) {
  return (
    <ol className={classes.list}>
      {events.map((event) => (
        <li key={event.id} data-level={event.level} className={classes.event}>
          <span className={classes.at}>
            <Time at={event.at} />
          </span>
          <span className={classes.icon} title={event.level}>
            <Icon name={LEVEL_ICON[event.level]} size={12} />
          </span>
          <span className={classes.sentence}>{event.sentence}</span>
        </li>
      ))}
    </ol>
  );
}
