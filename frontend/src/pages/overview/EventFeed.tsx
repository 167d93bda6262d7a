import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { eventsQuery } from "../../api/runs";
import type { EventLevel, RunEvent } from "../../api/types";
import { Icon } from "../../components/Icon";
import { Time } from "../../components/Time";
import { visibleText } from "../../lib/format";
import type { IconName } from "../../lib/status";
import classes from "./EventFeed.module.css";
import { eventPlace } from "./eventLink";

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
      <EventList run={run} events={events} />
    </section>
  );
}

const LEVEL_ICON: Record<EventLevel, IconName> = { info: "dot", warning: "alert", error: "alert" };

export function EventList({ run, events, hasLinks = false }: { run: number; events: readonly RunEvent[]; hasLinks?: boolean }) {
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
          <span className={classes.sentence}>
            {visibleText(event.sentence)}
            {hasLinks && <EventLink run={run} event={event} />}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** To the page of what the event names. */
function EventLink({ run, event }: { run: number; event: RunEvent }) {
  const place = eventPlace(event);
  switch (place) {
    case null:
      return null;
    case "step":
      return <> <Link to="/runs/$run/steps" params={{ run }} search={{ step: Number(event.data.step) }} className={classes.link}>the step</Link></>;
    case "workers":
      return <> <Link to="/workers" className={classes.link}>workers</Link></>;
    case "groups":
      return <> <Link to="/runs/$run/groups" params={{ run }} search={{ status: "dropped" }} className={classes.link}>dropped groups</Link></>;
    default:
      return <> <Link to={`/runs/$run/${place}`} params={{ run }} className={classes.link}>{PLACE[place]}</Link></>;
  }
}

const PLACE = { steps: "steps", engines: "engines", checkpoints: "checkpoints", evals: "evaluations", failures: "failures", config: "recipe" } as const;
