import { Button, Select } from "@mantine/core";
import { useSuspenseInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { eventsQuery } from "../../api/runs";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { EventList } from "./EventFeed";

const route = getRouteApi("/shell/runs/$run/events");

export function EventsTab() {
  const { run: id } = route.useParams();
  const { level } = route.useSearch();
  const navigate = route.useNavigate();
  const events = useSuspenseInfiniteQuery(eventsQuery(id, { level }));
  const shown = events.data.pages.flatMap((page) => page.results);

  return (
    <>
      <Filters>
        <Select
          aria-label="Level"
          placeholder="Any level"
          clearable
         
          data={["info", "warning", "error"]}
          value={level ?? null}
          onChange={(value) => {
            navigate({ search: value === null ? {} : { level: value } }).catch(() => undefined);
          }}
        />
      </Filters>
      {shown.length === 0 ? (
        <EmptyState title={level === undefined ? "Nothing has happened yet" : `No event of level ${level}`} />
      ) : (
        <EventList events={shown} />
      )}
      {events.hasNextPage && (
        <Button
          mt="md"
         
          variant="default"
          loading={events.isFetchingNextPage}
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
