import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { useProject } from "../../api/me";
import { type TrajectoryFilter, trajectoriesQuery, trajectoryQuery, turnsQuery } from "../../api/trajectories";
import type { Attempt, Turn } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { ErrorState } from "../../components/ErrorState";
import { Icon } from "../../components/Icon";
import { Loading } from "../../components/Loading";
import { Page } from "../../components/Page";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { TabBar } from "../../components/TabBar";
import { Elapsed } from "../../components/Time";
import { ABSENT, formatCount, formatDuration, words } from "../../lib/format";
import { ATTEMPT_STATUS, OUTCOME, outcomeOf } from "../../lib/status";
import { useKeys } from "../../lib/useKeys";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { INSPECTOR_TABS } from "./search";
import { AttemptReward } from "../../components/Reward";
import { TestsTab } from "./TestsTab";
import { TimelineTab } from "./TimelineTab";
import classes from "./TrajectoryPage.module.css";
import { TranscriptTab } from "./TranscriptTab";
import { isErroneous, versions } from "../../lib/turns";

const route = getRouteApi("/shell/trajectories/$trajectory");

const NO_TURNS: Turn[] = [];

/** The inspector: what one trajectory did, saw, and came to. */
export function TrajectoryPage() {
  const { trajectory: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { tab = "transcript", turn: selected, attempt: chosen, ...filter } = search;
  const project = useProject();
  const { data: trajectory } = useSuspenseQuery(trajectoryQuery(id));
  const attempt = trajectory.attempts.find((one) => one.number === chosen) ?? trajectory.attempts.at(-1);
  const turns = useQuery({ ...turnsQuery(id, attempt?.number ?? 0), enabled: attempt !== undefined });
  useLive(topics.trajectory(project.id, id));

  const neighbours = useNeighbours(id, trajectory.run, filter);
  const open = (to: number | undefined) => {
    if (to !== undefined) navigate({ params: { trajectory: to }, search: { ...filter, tab } }).catch(() => undefined);
  };
  const rows = turns.data ?? NO_TURNS;
  const goTurn = (index: number | undefined) => {
    if (index !== undefined) navigate({ search: (old) => ({ ...old, tab: "transcript" as const, turn: index }), resetScroll: false }).catch(() => undefined);
  };
  const at = rows.findIndex((row) => row.index === selected);
  useKeys({
    j: () => open(neighbours.next),
    J: () => open(neighbours.next),
    k: () => open(neighbours.previous),
    K: () => open(neighbours.previous),
    "]": () => goTurn(rows[at + 1]?.index),
    "[": () => goTurn(rows[at - 1]?.index),
    e: () => goTurn(rows.slice(at + 1).find(isErroneous)?.index),
  });

  return (
    <Page
      title={trajectory.task.key}
      badge={<StatusBadge face={OUTCOME[outcomeOf(trajectory)]} />}
      lead={
        <span className={classes.facts}>
          <Link to="/runs/$run/trajectories" params={{ run: trajectory.run }} search={filter}>
            run {trajectory.run}
          </Link>
          <span>trajectory {trajectory.id}</span>
          <span>{trajectory.stage}</span>
          <Link to="/runs/$run/trajectories" params={{ run: trajectory.run }} search={{ group: trajectory.group }}>
            group {trajectory.group}, member {trajectory.index}
          </Link>
          <span>{trajectory.task.repository}</span>
        </span>
      }
      actions={
        <>
          <Button variant="default" disabled={neighbours.previous === undefined} onClick={() => open(neighbours.previous)} title="Previous in the list (K)">
            ↑ Previous
          </Button>
          <Button variant="default" disabled={neighbours.next === undefined} onClick={() => open(neighbours.next)} title="Next in the list (J)">
            ↓ Next
          </Button>
        </>
      }
    >
      <StatRow label="Facts">
        <Stat
          label="Reward"
          value={attempt === undefined ? ABSENT : <AttemptReward attempt={attempt} />}
          {...(attempt?.is_attributed_to_policy ? { note: "attributed: policy" } : {})}
        />
        <Stat label="Stopped by" value={<span className={classes.words}>{attempt === undefined ? ABSENT : endOf(attempt)}</span>} />
        <Stat label="Turns" value={formatCount(attempt?.num_turns ?? trajectory.num_turns)} />
        <Stat label="Generated" value={formatCount(attempt?.output_tokens)} unit="tokens" />
        <Stat label="Weights" value={versions(attempt ?? trajectory)} note="oldest – newest of a token" />
        <Stat label="Took" value={<Elapsed from={attempt?.started_at ?? null} to={attempt?.finished_at ?? null} />} />
        <Stat label="Model" value={formatDuration(attempt?.timings.llm)} note={`sandbox ${formatDuration(attempt?.timings.exec)}`} />
      </StatRow>
      {trajectory.attempts.length > 1 && (
        <nav className={classes.attempts} aria-label="Attempts">
          {trajectory.attempts.map((one) => (
            <Link
              key={one.number}
              from="/trajectories/$trajectory"
              search={(old) => ({ ...old, attempt: one.number, turn: undefined })}
              className={classes.attempt}
              data-active={one.number === attempt?.number}
            >
              attempt {one.number} <StatusBadge face={ATTEMPT_STATUS[one.status]} />
            </Link>
          ))}
        </nav>
      )}
      {attempt?.failure != null && <FailurePanel failure={attempt.failure} />}
      <TabBar label="View">
        {INSPECTOR_TABS.map((one) => (
          <Link key={one} from="/trajectories/$trajectory" search={(old) => ({ ...old, tab: one })} resetScroll={false} data-active={one === tab}>
            {one.charAt(0).toUpperCase() + one.slice(1)}
          </Link>
        ))}
      </TabBar>
      {turns.isError ? (
        <ErrorState
          error={turns.error}
          onRetry={() => {
            turns.refetch().catch(() => undefined);
          }}
        />
      ) : turns.isLoading ? (
        <Loading rows={6} />
      ) : (
        <>
          {tab === "transcript" && <TranscriptTab instruction={trajectory.instruction} turns={rows} selected={selected} onSelect={goTurn} />}
          {tab === "tests" && <TestsTab attempt={attempt} />}
          {tab === "timeline" && <TimelineTab attempt={attempt} turns={rows} onSelect={goTurn} />}
          {tab === "raw" && <CodeBlock label="raw JSON" text={JSON.stringify({ ...trajectory, turns: rows }, null, 2)} />}
        </>
      )}
      <p className={classes.keys}>
        <kbd>J</kbd> <kbd>K</kbd> next and previous trajectory · <kbd>[</kbd> <kbd>]</kbd> turns · <kbd>E</kbd> next error
      </p>
    </Page>
  );
}

/** Why it ended, where the policy or the control plane ended it. */
function endOf({ stop_reason, cancel_reason }: Attempt): string {
  if (stop_reason !== "") return words(stop_reason);
  return cancel_reason === "" ? ABSENT : words(cancel_reason);
}

function FailurePanel({ failure }: { failure: NonNullable<Attempt["failure"]> }) {
  return (
    <section className={classes.failure} aria-label="Infrastructure failure">
      <h2>
        <Icon name="hatch" /> The infrastructure failed at {failure.stage}: {words(failure.kind)}
      </h2>
      <CodeBlock label="failure message" text={failure.message} />
      <p>This attempt has no reward and counts in no mean.</p>
    </section>
  );
}

/** The trajectories before and after this one in the filtered list that the reader came from. */
function useNeighbours(id: number, run: number, filter: TrajectoryFilter) {
  const list = useInfiniteQuery(trajectoriesQuery(run, filter));
  const ids = list.data?.pages.flatMap((page) => page.results.map((row) => row.id)) ?? [];
  const at = ids.indexOf(id);
  return { previous: at > 0 ? ids[at - 1] : undefined, next: at >= 0 ? ids[at + 1] : undefined };
}
