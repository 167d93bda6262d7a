import { useSuspenseInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { failureGroupQuery, failuresQuery } from "../../api/fleet";
import { useProject } from "../../api/me";
import type { Failure, FailureGroupDetail } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { Sparkline } from "../../components/Sparkline";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { Time } from "../../components/Time";
import { ABSENT, formatCount, formatShare, visibleText, words } from "../../lib/format";
import { FAILURE_STATE } from "../../lib/status";
import { useFleet } from "../../live/useFleet";
import classes from "./FailureGroupPage.module.css";
import { GroupActions } from "./GroupActions";

const route = getRouteApi("/shell/failures/$group");

/** One fingerprint: what it did, how it is spread, why it is one group, and every failure that has it. */
export function FailureGroupPage() {
  const { group: id } = route.useParams();
  const { run } = route.useSearch();
  const project = useProject();
  const { data: group } = useSuspenseQuery(failureGroupQuery(id, run));
  const failures = useSuspenseInfiniteQuery(failuresQuery(id, { run }));
  useFleet();
  const where = run === undefined ? "of all runs" : `of run ${run}`;
  return (
    <Page
      title={`${group.stage}: ${words(group.kind)}`}
      badge={<StatusBadge face={FAILURE_STATE[group.state]} />}
      lead={
        <>
          <StateSentence group={group} />{" "}
          {run === undefined ? (
            <Link to="/failures">All failures</Link>
          ) : (
            <>
              <Link to="/runs/$run/failures" params={{ run }}>
                Failures of run {run}
              </Link>{" "}
              ·{" "}
              <Link to="/failures/$group" params={{ group: id }} search={{}}>
                this group in all runs
              </Link>
            </>
          )}
        </>
      }
      actions={
        <>
          <GroupActions group={group} role={project.role} />
          <CopyAs path={`/api/v1/failures/${id}`} query={{ run }} />
        </>
      }
    >
      <div className={classes.page}>
        <StatRow label="Facts">
          <Stat label="Failures" value={formatCount(group.num_here)} note={run === undefined ? where : `${where}; ${formatCount(group.num_failures)} in all`} />
          <Stat label="Trajectories touched" value={formatCount(group.num_trajectories)} note={`in ${formatCount(group.num_runs)} ${group.num_runs === 1 ? "run" : "runs"}`} />
          <Stat label="Rewards invalidated" value={formatCount(group.num_invalidated)} note="touched trajectories without a reward" />
          <Stat
            label="Share of attempts" value={group.num_attempts === 0 ? ABSENT : formatShare(group.num_failed_attempts / group.num_attempts)}
            note={`${formatCount(group.num_failed_attempts)} of ${formatCount(group.num_attempts)} that began, in the runs it is in`}
          />
          <Stat label="First" value={<Time at={group.first_at} />} />
          <Stat label="Last" value={<Time at={group.last_at} />} />
          <Stat label="By hour" value={<Sparkline values={group.hourly} label="failures an hour, 48 h up to the last" color="--tone-failed" />} note="48 hours up to the last one" />
        </StatRow>
        <CodeBlock label="message" text={group.message} />
        <Facets group={group} />
        <Why group={group} />
        <section aria-labelledby="members" className={classes.section}>
          <h2 id="members">Failures</h2>
          <DataTable
            label="Failures of the group"
            columns={COLUMNS}
            rows={failures.data.pages.flatMap((page) => page.results)}
            rowKey={(failure) => failure.id}
            live={`${id} ${run ?? ""}`}
            hasMore={failures.hasNextPage}
            isLoadingMore={failures.isFetchingNextPage}
            onMore={() => {
              failures.fetchNextPage().catch(() => undefined);
            }}
            empty={<EmptyState title="No failure of this group in this run" />}
          />
        </section>
      </div>
    </Page>
  );
}

/** Who set it aside and why; or since when it is back. */
function StateSentence({ group }: { group: FailureGroupDetail }) {
  const by = group.state_by === "" ? "" : ` by ${group.state_by}: “${visibleText(group.state_reason)}”`;
  switch (group.state) {
    case "resolved":
      return (
        <>
          Resolved <Time at={group.resolved_at} />
          {by}.
        </>
      );
    case "ignored":
      return (
        <>
          Ignored until <Time at={group.ignored_until} />
          {by}.
        </>
      );
    case "regressed":
      return (
        <>
          Back since <Time at={group.regressed_at ?? group.last_at} />, after it was resolved <Time at={group.resolved_at} />
          {by}.
        </>
      );
    default:
      return <>{FAILURE_STATE[group.state].meaning}</>;
  }
}

const MAX_SHOWN = 6;

/** How the failures are spread: a value that has nearly all of them is a lead. */
function Facets({ group }: { group: FailureGroupDetail }) {
  const facets = group.facets.filter((facet) => facet.values.some((one) => one.value !== ""));
  return (
    <section aria-labelledby="facets" className={classes.section}>
      <h2 id="facets">Where it happens</h2>
      <div className={classes.facets}>
        {facets.map((facet) => (
          <table key={facet.name} className={classes.facet} aria-label={`Failures by ${facet.name}`}>
            <thead>
              <tr>
                <th scope="col">{facet.name}</th>
                <th scope="col">{facet.num_values > MAX_SHOWN ? `${MAX_SHOWN} of ${formatCount(facet.num_values)}` : "failures"}</th>
              </tr>
            </thead>
            <tbody>
              {facet.values.slice(0, MAX_SHOWN).map(({ value, num_failures: num }) => (
                <tr key={value}>
                  <td title={value}>
                    <span className={classes.share} style={{ width: `${(num / group.num_here) * 100}%` }} aria-hidden="true" />
                    <FacetValue name={facet.name} value={value} />
                  </td>
                  <td>{formatCount(num)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        ))}
      </div>
    </section>
  );
}

function FacetValue({ name, value }: { name: string; value: string }) {
  if (value === "") return <>not said</>;
  if (name !== "run") return <>{visibleText(value)}</>;
  return (
    <Link to="/runs/$run/failures" params={{ run: Number(value) }}>
      {value}
    </Link>
  );
}

function Why({ group }: { group: FailureGroupDetail }) {
  return (
    <section aria-labelledby="why" className={classes.section}>
      <h2 id="why">Why these are one group</h2>
      <p className={classes.why}>
        Their fingerprint is the same: <code>{visibleText(group.fingerprint)}</code>. Host, engine, driver and task are no part of it, so they
        are facets above.
      </p>
      <dl className={classes.parts}>
        {group.why.map(({ part, meaning }) => (
          <div key={part + meaning}>
            <dt>
              <code>{visibleText(part)}</code>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const COLUMNS: Column<Failure>[] = [
  { id: "at", header: "When", width: 120, cell: (failure) => <Time at={failure.at} /> },
  { id: "message", header: "Message", width: 420, cell: (failure) => <code title={failure.message}>{visibleText(failure.message)}</code> },
  {
    id: "run", header: "Run", width: 70, align: "right",
    cell: ({ run_id: run }) =>
      run === null ? (
        ABSENT
      ) : (
        <Link to="/runs/$run/overview" params={{ run }}>
          {run}
        </Link>
      ),
  },
  {
    id: "trajectory", header: "Trajectory", width: 100, align: "right",
    cell: ({ trajectory_id: trajectory }) =>
      trajectory === null ? (
        ABSENT
      ) : (
        <Link to="/trajectories/$trajectory" params={{ trajectory }}>
          {trajectory}
        </Link>
      ),
  },
  { id: "by", header: "Suspected", width: 110, cell: (failure) => (failure.is_by_policy ? "the agent" : ABSENT) },
  { id: "driver", header: "Driver", width: 90, cell: (failure) => failure.driver || ABSENT },
  { id: "host", header: "Host", width: 130, cell: (failure) => failure.host || ABSENT },
  { id: "engine", header: "Engine", width: 120, cell: (failure) => failure.engine || ABSENT },
];
