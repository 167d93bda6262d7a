import { Button, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useSuspenseInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useDeferredValue, useState } from "react";

import { meQuery, useProject } from "../../api/me";
import { recipesQuery, type RunFilter, runsQuery } from "../../api/runs";
import type { Run } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Page } from "../../components/Page";
import { cliCommand } from "../../lib/commands";
import { RUN_STATUS } from "../../lib/status";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { COLUMNS } from "./columns";

const route = getRouteApi("/shell/runs");
const TYPING_MS = 250;

export function RunsPage() {
  const { cols, selected, ...filter } = route.useSearch();
  const navigate = route.useNavigate();
  const project = useProject();
  // What is on screen stays until the answer to the new filter is there.
  const shown = useDeferredValue(JSON.stringify(filter));
  const runs = useSuspenseInfiniteQuery(runsQuery(JSON.parse(shown) as RunFilter));
  useLive(topics.runs(project.id));
  const rows = runs.data.pages.flatMap((page) => page.results);
  const ids = numbersOf(selected);

  const change = (search: Partial<Record<keyof RunFilter | "cols" | "selected", string | undefined>>) => {
    navigate({ search: (before) => compact({ ...before, ...search }), replace: true }).catch(() => undefined);
  };
  return (
    <Page
      title="Runs"
      actions={
        <>
          <CompareButton ids={ids} />
          <Button renderRoot={(props) => <Link {...props} to="/runs/new" />}>New run</Button>
        </>
      }
    >
      <RunFilters filter={filter} onChange={change} />
      <DataTable<Run>
        label="Runs"
        columns={COLUMNS}
        rows={rows}
        rowKey={(run) => run.id}
        onOpen={(run) => {
          navigate({ to: "/runs/$run/overview", params: { run: run.id } }).catch(() => undefined);
        }}
        hasMore={runs.hasNextPage}
        isLoadingMore={runs.isFetchingNextPage}
        onMore={() => {
          runs.fetchNextPage().catch(() => undefined);
        }}
        sort={filter.sort}
        onSort={(sort) => change({ sort })}
        cols={cols}
        onCols={(next) => change({ cols: next })}
        selected={ids}
        onSelected={(keys) => change({ selected: keys.join(",") })}
        empty={<Empty filter={filter} />}
      />
    </Page>
  );
}

function Empty({ filter }: { filter: RunFilter }) {
  if (Object.keys(filter).some((key) => key !== "sort")) {
    return (
      <EmptyState title="No run matches these filters">
        <Link to="/runs">Show all runs</Link>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No runs yet" command="longtail runs launch -f recipes/miniature.yaml">
      Launch one from a stored recipe with “New run”, or from a shell:
    </EmptyState>
  );
}

type FilterProps = { filter: RunFilter; onChange: (change: RunFilter) => void };

function RunFilters({ filter, onChange }: FilterProps) {
  const { data: recipes } = useSuspenseQuery(recipesQuery());
  const { data: me } = useSuspenseQuery(meQuery());
  const recipeNames = [...new Set([...recipes.map((recipe) => recipe.name), ...(filter.recipe === undefined ? [] : [filter.recipe])])];
  return (
    <Filters>
      <NameFilter key={filter.name === undefined ? "none" : "some"} name={filter.name ?? ""} onChange={(name) => onChange({ name })} />
      <MultiSelect
        size="xs" aria-label="State" placeholder={filter.status === undefined ? "Any state" : ""} clearable data-fits
        data={Object.entries(RUN_STATUS).map(([value, face]) => ({ value, label: face.label }))} value={filter.status?.split(",") ?? []}
        onChange={(statuses) => onChange({ status: statuses.join(",") })}
      />
      <Select
        aria-label="Recipe" placeholder="Any recipe" clearable data={recipeNames} value={filter.recipe ?? null}
        onChange={(recipe) => onChange({ recipe: recipe ?? undefined })}
      />
      {me.projects.length > 1 && (
        <Select
          aria-label="Project" placeholder="Any project" clearable data={me.projects.map(({ slug, name }) => ({ value: slug, label: name }))}
          value={filter.project ?? null} onChange={(slug) => onChange({ project: slug ?? undefined })}
        />
      )}
      <CopyAs path="/api/v1/runs" query={filter} cli={cliCommand("runs ls", filter)} />
    </Filters>
  );
}

/** Typed at a person's pace: the address follows a moment later. */
function NameFilter({ name, onChange }: { name: string; onChange: (name: string) => void }) {
  const [typed, setTyped] = useState(name);
  const send = useDebouncedCallback(onChange, TYPING_MS);
  return (
    <TextInput
      aria-label="Name" placeholder="Name contains" value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        send(event.currentTarget.value.trim());
      }}
    />
  );
}

function CompareButton({ ids }: { ids: readonly number[] }) {
  const label = ids.length < 2 ? "Compare" : `Compare ${ids.length} runs`;
  if (ids.length < 2) {
    return (
      <Button variant="default" aria-disabled data-disabled title="Select two runs or more to compare them.">
        {label}
      </Button>
    );
  }
  return (
    <Button variant="default" renderRoot={(props) => <Link {...props} to="/runs/compare" search={{ ids: ids.join(",") }} />}>
      {label}
    </Button>
  );
}

function numbersOf(text: string | undefined): number[] {
  return (text ?? "").split(",").map(Number).filter((id) => Number.isInteger(id) && id > 0);
}

/** Without what is empty: addresses stay short. */
function compact<Search extends Record<string, string | undefined>>(search: Search): Search {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined && value !== "")) as Search;
}
