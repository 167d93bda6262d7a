import { TextInput } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { runQuery } from "../../api/runs";
import { trajectoriesQuery, trajectoryFacetsQuery } from "../../api/trajectories";
import type { Outcome } from "../../lib/status";
import { CopyAs } from "../../components/CopyAs";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Filters } from "../../components/Filters";
import { Loading } from "../../components/Loading";
import { words } from "../../lib/format";
import { OUTCOME } from "../../lib/status";
import { columnsOf } from "./columns";
import { FacetFilter } from "./FacetFilter";
import { PRESETS } from "./presets";
import { RangeFilter } from "./RangeFilter";
import type { TrajectoriesSearch } from "./search";
import { ExportMenu, Totals } from "./Totals";
import classes from "./TrajectoriesTab.module.css";

const route = getRouteApi("/shell/runs/$run/trajectories");

/** All samples of a run: what each came to, what it took, and where its time went. */
export function TrajectoriesTab() {
  const { run: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { cols, ...query } = search;
  const { sort, ...filter } = query;
  const list = useInfiniteQuery({ ...trajectoriesQuery(id, query), placeholderData: keepPreviousData, throwOnError: true });
  const { data: found } = useQuery({ ...trajectoryFacetsQuery(id, filter), placeholderData: keepPreviousData });
  const columns = useMemo(() => columnsOf(search), [search]);
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.results) ?? [], [list.data]);
  const set = (change: Partial<TrajectoriesSearch>) => {
    navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
  };

  return (
    <>
      <Presets run={id} query={query} cols={cols} />
      <Filters>
        <Finder key={search.q} text={search.q} onFind={(q) => set({ q })} />
        <FacetFilter label="Outcome" counts={found?.facets.outcome} value={search.outcome} nameOf={(value) => OUTCOME[value as Outcome].label} onChange={(outcome) => set({ outcome })} />
        <FacetFilter label="Stop reason" counts={found?.facets.stop_reason} value={search.stop_reason} nameOf={words} onChange={(stop_reason) => set({ stop_reason })} />
        <FacetFilter label="Stage" counts={found?.facets.stage} value={search.stage} onChange={(stage) => set({ stage })} />
        <FacetFilter label="Repository" counts={found?.facets.repository} value={search.repository} onChange={(repository) => set({ repository })} />
        <FacetFilter label="Failure" counts={found?.facets.failure} value={search.failure} nameOf={words} onChange={(failure) => set({ failure })} />
        <FacetFilter label="Driver" counts={found?.facets.driver} value={search.driver} onChange={(driver) => set({ driver })} />
        <RangeFilter label="Turns" value={search.turns} onChange={(turns) => set({ turns })} />
        <RangeFilter label="Tokens out" value={search.tokens} onChange={(tokens) => set({ tokens })} />
        <RangeFilter label="Took" unit=" s" value={search.duration} onChange={(duration) => set({ duration })} />
        <RangeFilter label="Reward" value={search.reward} onChange={(reward) => set({ reward })} />
        <Chips search={search} onClear={(name) => set({ [name]: undefined })} />
        <CopyAs path={`/api/v1/runs/${id}/trajectories`} query={query} {...cliCommand(id, query)} />
      </Filters>
      {list.data === undefined ? <Loading /> : (
        <div className={list.isPlaceholderData ? classes.waiting : undefined} aria-busy={list.isPlaceholderData}>
          <DataTable
            label="Trajectories"
            columns={columns}
            rows={rows}
            rowKey={(trajectory) => trajectory.id}
            onOpen={(trajectory) => {
              navigate({ to: "/trajectories/$trajectory", params: { trajectory: trajectory.id }, search }).catch(() => undefined);
            }}
            hasMore={list.hasNextPage}
            isLoadingMore={list.isFetchingNextPage}
            onMore={() => {
              list.fetchNextPage().catch(() => undefined);
            }}
            sort={sort} onSort={(next) => set({ sort: next })}
            cols={cols} onCols={(next) => set({ cols: next })}
            live={JSON.stringify(list.isPlaceholderData ? null : query)}
            bar={
              <>
                <Totals totals={found?.totals} />
                <ExportMenu run={id} query={query} count={found?.totals.count} />
              </>
            }
            empty={
              Object.keys(filter).length > 0 ? (
                <EmptyState title="No trajectory matches">
                  <Link to="/runs/$run/trajectories" params={{ run: id }}>
                    Clear the filters
                  </Link>
                </EmptyState>
              ) : (
                <EmptyState title="No trajectories yet">{run.wait_sentence || "They appear when a stage admits its first group."}</EmptyState>
              )
            }
          />
        </div>
      )}
    </>
  );
}

function Presets({ run, query, cols }: { run: number; query: TrajectoriesSearch; cols: string | undefined }) {
  const text = (search: TrajectoriesSearch) => JSON.stringify(Object.entries(search).sort());
  return (
    <ul className={classes.presets} aria-label="Saved lists">
      {PRESETS.map(({ label, meaning, search }) => (
        <li key={label}>
          <Link
            to="/runs/$run/trajectories" params={{ run }} search={cols === undefined ? search : { ...search, cols }} title={meaning}
            data-on={text(search) === text(query)} activeProps={{}} activeOptions={{ exact: true, includeSearch: true }}
          >
            {label}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Finder({ text, onFind }: { text: string | undefined; onFind: (text: string | undefined) => void }) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const found = new FormData(event.currentTarget).get("q");
        onFind(typeof found === "string" && found !== "" ? found : undefined);
      }}
    >
      <TextInput name="q" type="search" size="xs" aria-label="Find" placeholder="Task, failure or id" defaultValue={text} maxLength={200} />
    </form>
  );
}

/** Filters that another page set: shown with their words, taken away by a click. */
const CHIPS = ["group", "step", "task", "engine", "status", "staleness", "is_valid", "is_zero_gradient"] as const;

function Chips({ search, onClear }: { search: TrajectoriesSearch; onClear: (name: (typeof CHIPS)[number]) => void }) {
  return CHIPS.filter((name) => search[name] !== undefined).map((name) => (
    <button key={name} type="button" className={classes.filter} data-on="true" onClick={() => onClear(name)} aria-label={`${words(name)} ${search[name]}: any ${words(name)}`}>
      {words(name)} <b>{search[name]}</b> ×
    </button>
  ));
}

/** Where the client has an option for every filter. */
function cliCommand(run: number, query: TrajectoriesSearch): { cli?: string } {
  const options = Object.entries(query).map(([name, value]) => [CLI_OPTIONS[name], value] as const);
  if (options.some(([option]) => option === undefined)) return {};
  return { cli: ["longtail trajectories ls", `--run ${run}`, ...options.map(([option, value]) => `${option} '${value}'`)].join(" ") };
}

const CLI_OPTIONS: Record<string, string | undefined> = {
  stage: "--stage", status: "--status", task: "--task", stop_reason: "--stop-reason", reward: "--reward",
};
