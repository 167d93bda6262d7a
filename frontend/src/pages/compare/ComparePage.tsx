import { useQueries } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { useProject } from "../../api/me";
import { Problem } from "../../api/problem";
import { runQuery } from "../../api/runs";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Loading } from "../../components/Loading";
import { Page } from "../../components/Page";
import { MARKERS, RUN_COLORS } from "../../lib/markers";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import classes from "./ComparePage.module.css";
import { Curves } from "./Curves";
import { Recipes } from "./Recipes";
import { type CompareChange, MAX_RUNS, readIds } from "./search";
import { Summary } from "./Summary";
import type { Compared } from "./types";

const route = getRouteApi("/shell/runs/compare");

/** Runs beside each other: figures, curves with one smoothing, and what their recipes do differently. */
export function ComparePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const ids = readIds(search.ids);
  const compared = ids.slice(0, MAX_RUNS);
  const details = useQueries({ queries: compared.map((id) => runQuery(id)) });
  const change = (to: CompareChange) => {
    navigate({ search: (old) => ({ ...old, ...to }) }).catch(() => undefined);
  };

  if (compared.length < 2) {
    return (
      <Page title="Compare runs">
        <EmptyState title={compared.length === 0 ? "No runs chosen" : "One run is not a comparison"} command="longtail runs ls">
          Select two to ten in the <Link to="/runs">list of runs</Link>, or name them in the address: <code>?ids=7,9</code>
        </EmptyState>
      </Page>
    );
  }
  if (details.some((detail) => detail.isPending)) {
    return (
      <Page title="Compare runs">
        <Loading />
      </Page>
    );
  }
  const broken = details.find((detail) => detail.error !== null && !isUnknown(detail.error));
  if (broken !== undefined) {
    return (
      <Page title="Compare runs">
        <ErrorState error={broken.error} onRetry={() => {
            broken.refetch().catch(() => undefined);
          }} />
      </Page>
    );
  }
  const runs = details.flatMap<Compared>(({ data }, place) =>
    data === undefined ? [] : [{ run: data, color: RUN_COLORS[place] ?? "--run-1", marker: MARKERS[place] ?? MARKERS[0] }],
  );
  const unknown = compared.filter((_, place) => isUnknown(details[place]?.error));
  const base = runs.find(({ run }) => run.id === search.base);
  return (
    <Page title={`Compare ${runs.length} runs`}>
      {compared.map((id) => (
        <Follow key={id} run={id} />
      ))}
      {unknown.length > 0 && (
        <p className={classes.notice} role="status">
          There is no run {unknown.join(", ")} in a project of yours. <DropLink ids={ids} without={unknown} />
        </p>
      )}
      {ids.length > MAX_RUNS && (
        <p className={classes.notice} role="status">
          The first {MAX_RUNS} of {ids.length} runs are compared; more curves on one chart cannot be told apart.
        </p>
      )}
      {runs.length === 0 ? (
        <EmptyState title="None of these runs is known">
          <Link to="/runs">Choose from the list</Link>
        </EmptyState>
      ) : (
        <>
          <Summary runs={runs} base={base} search={search} onChange={change} />
          <Curves runs={runs} base={base} search={search} onChange={change} />
          <Recipes runs={runs} isAll={search.recipe === "all"} onChange={change} />
        </>
      )}
    </Page>
  );
}

/** Events of a run make its queries stale. */
function Follow({ run }: { run: number }) {
  const project = useProject();
  useLive(topics.run(project.id, run));
  return null;
}

function DropLink({ ids, without }: { ids: readonly number[]; without: readonly number[] }) {
  return (
    <Link from="/runs/compare" to="/runs/compare" search={(old) => ({ ...old, ids: ids.filter((id) => !without.includes(id)).join(",") })}>
      Leave it out
    </Link>
  );
}

function isUnknown(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}
