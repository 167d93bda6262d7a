import { Button, Select } from "@mantine/core";
import { useQuery, useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { eventKindsQuery } from "../../api/overview";
import { eventsQuery } from "../../api/runs";
import { CopyAs } from "../../components/CopyAs";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { formatCount, words } from "../../lib/format";
import { EventList } from "./EventFeed";

const route = getRouteApi("/shell/runs/$run/events");

/** What happened, newest first. */
export function EventsTab() {
  const { run: id } = route.useParams();
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const events = useSuspenseInfiniteQuery(eventsQuery(id, filter));
  const { data: kinds = [] } = useQuery(eventKindsQuery(id));
  const shown = events.data.pages.flatMap((page) => page.results);
  const set = (change: typeof filter) => {
    navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
  };
  const numOf = new Map<string, number>();
  for (const { kind, num } of kinds) numOf.set(kind, (numOf.get(kind) ?? 0) + num);

  return (
    <>
      <Filters>
        <Select
          aria-label="Level" placeholder="Any level" clearable data={["info", "warning", "error"]} value={filter.level ?? null}
          onChange={(level) => set({ level: level ?? undefined })}
        />
        <Select
          aria-label="Kind" placeholder="Any kind" clearable searchable value={filter.kind ?? null} comboboxProps={{ width: 240, position: "bottom-start" }}
          data={[...numOf].map(([kind, num]) => ({ value: kind, label: `${words(kind)} (${formatCount(num)})` }))}
          onChange={(kind) => set({ kind: kind ?? undefined })}
        />
        <CopyAs path={`/api/v1/runs/${id}/events`} query={filter} />
      </Filters>
      {shown.length === 0 ? (
        filter.level === undefined && filter.kind === undefined ? (
          <EmptyState title="Nothing has happened yet">Each move that the run makes by itself writes a line here.</EmptyState>
        ) : (
          <EmptyState title="No such event">
            <Button variant="default" onClick={() => set({ level: undefined, kind: undefined })}>Show all events</Button>
          </EmptyState>
        )
      ) : (
        <EventList run={id} events={shown} hasLinks />
      )}
      {events.hasNextPage && (
        <Button
          mt="md" variant="default" loading={events.isFetchingNextPage}
          onClick={() => {
            events.fetchNextPage().catch(() => undefined);
          }}
        >
          Older
        </Button>
      )}
    </>
  );
}
