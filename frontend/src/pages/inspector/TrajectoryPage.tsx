import { Button } from "@mantine/core";
import { useInfiniteQuery, usePrefetchQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";

import { skeletonQuery, TURNS_AT_ONCE, turnsFromQuery } from "../../api/inspector";
import { useProject } from "../../api/me";
import { trajectoriesQuery, trajectoryQuery } from "../../api/trajectories";
import type { Attempt, TrajectoryDetail } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { EmptyState } from "../../components/EmptyState";
import { Icon } from "../../components/Icon";
import { Loading } from "../../components/Loading";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { TabBar } from "../../components/TabBar";
import { words } from "../../lib/format";
import { type OutlineTurn, outlineTurns } from "../../lib/outline";
import { ATTEMPT_STATUS, OUTCOME, outcomeOf } from "../../lib/status";
import { useKeys } from "../../lib/useKeys";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { Fault } from "./Fault";
import { type TrajectoriesSearch, trajectoriesSearch } from "../trajectories/search";
import { FactsPane } from "./FactsPane";
import { LoopStepper } from "./LoopStepper";
import { OutlinePane } from "./OutlinePane";
import { inspectorRoute } from "./route";
import { INSPECTOR_TABS, type InspectorTab } from "./search";
import type { TabProps } from "./tabs";
import classes from "./TrajectoryPage.module.css";
import { TranscriptTab } from "./TranscriptTab";

const route = inspectorRoute;

const TABS: Record<Exclude<InspectorTab, "transcript">, React.ComponentType<TabProps>> = {
  timeline: lazy(() => import("./TimelineTab").then((file) => ({ default: file.TimelineTab }))),
  patch: lazy(() => import("./PatchTab").then((file) => ({ default: file.PatchTab }))),
  tests: lazy(() => import("./TestsTab").then((file) => ({ default: file.TestsTab }))),
  tokens: lazy(() => import("./TokensTab").then((file) => ({ default: file.TokensTab }))),
  logs: lazy(() => import("./LogsTab").then((file) => ({ default: file.LogsTab }))),
  sandbox: lazy(() => import("./SandboxTab").then((file) => ({ default: file.SandboxTab }))),
  raw: lazy(() => import("./RawTab").then((file) => ({ default: file.RawTab }))),
  siblings: lazy(() => import("./SiblingsTab").then((file) => ({ default: file.SiblingsTab }))),
};
/** Where a turn has a place; from the others, the outline leads to the transcript. */
const OF_TURNS: readonly InspectorTab[] = ["transcript", "timeline", "tokens"];
const NO_TURNS: OutlineTurn[] = [];

/** The inspector: what one trajectory did, saw, and came to. */
export function TrajectoryPage() {
  const { trajectory: id } = route.useParams();
  const search = route.useSearch();
  const { tab = "transcript", turn: selected, attempt: chosen, facts } = search;
  const project = useProject();
  // All at once: the page waits for the slowest of them, not for their sum.
  usePrefetchQuery(skeletonQuery(id, chosen));
  usePrefetchQuery(turnsFromQuery(id, chosen, (selected ?? 0) - ((selected ?? 0) % TURNS_AT_ONCE)));
  const { data: trajectory } = useSuspenseQuery(trajectoryQuery(id));
  useLive(topics.trajectory(project.id, id));
  const attempt = trajectory.attempts.find((one) => one.number === chosen) ?? trajectory.attempts.at(-1);
  const skeleton = useQuery({ ...skeletonQuery(id, chosen), enabled: attempt !== undefined });
  const turns = useMemo(() => (skeleton.data === undefined ? NO_TURNS : outlineTurns(skeleton.data)), [skeleton.data]);
  const filter = trajectoriesSearch(search);
  const { goTurn, neighbours, open } = useInspectorKeys(trajectory, turns, filter);
  const Tab = tab === "transcript" ? undefined : TABS[tab];

  return (
    <Page
      title={trajectory.task.key}
      badge={<StatusBadge face={OUTCOME[outcomeOf(trajectory)]} />}
      lead={<Lead trajectory={trajectory} filter={filter} />}
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
      {attempt !== undefined && <LoopStepper trajectory={trajectory} attempt={attempt} turns={turns} />}
      {trajectory.attempts.length > 1 && <Attempts attempts={trajectory.attempts} shown={attempt} />}
      {attempt?.failure != null && <FailurePanel attempt={attempt} trajectory={trajectory} />}
      <TabBar label="View">
        {INSPECTOR_TABS.map((one) => (
          <Link key={one} from="/trajectories/$trajectory" search={(old) => ({ ...old, tab: one })} resetScroll={false} data-active={one === tab}>
            {one.charAt(0).toUpperCase() + one.slice(1)}
          </Link>
        ))}
      </TabBar>
      {attempt === undefined ? (
        <EmptyState title="No attempt yet">It waits for a slot of a rollout worker; its first attempt appears here by itself.</EmptyState>
      ) : skeleton.isError ? (
        <Fault query={skeleton} />
      ) : skeleton.data === undefined ? (
        <Loading rows={8} />
      ) : (
        <div className={classes.panes} data-facts={facts ?? "on"}>
          <OutlinePane turns={turns} selected={selected} onSelect={goTurn} />
          <div className={classes.content}>
            {Tab === undefined ? (
              <TranscriptTab key={attempt.number} {...{ trajectory, attempt, chosen, skeleton: skeleton.data, turns, selected, onSelect: goTurn }} />
            ) : (
              <Suspense fallback={<Loading rows={6} />}>
                <Tab key={attempt.number} {...{ trajectory, attempt, chosen, skeleton: skeleton.data, turns, selected, onSelect: goTurn }} />
              </Suspense>
            )}
          </div>
          <FactsPane trajectory={trajectory} attempt={attempt} skeleton={skeleton.data} turns={turns} isHidden={facts === "off"} onSelect={goTurn} />
        </div>
      )}
    </Page>
  );
}

function useInspectorKeys(trajectory: TrajectoryDetail, turns: readonly OutlineTurn[], filter: TrajectoriesSearch) {
  const navigate = route.useNavigate();
  const { tab } = route.useSearch();
  const neighbours = useNeighbours(trajectory.id, trajectory.run, filter);
  const open = (to: number | undefined) => {
    if (to !== undefined) navigate({ params: { trajectory: to }, search: { ...filter, ...(tab === undefined ? {} : { tab }) } }).catch(() => undefined);
  };
  /** To the turn that `find` names, given where the reader is; keys may come faster than the page. */
  const step = (find: (at: number) => OutlineTurn | undefined) => {
    navigate({
      search: (old) => {
        const turn = find(turns.findIndex((row) => row.index === old.turn))?.index ?? old.turn;
        const target = old.tab !== undefined && OF_TURNS.includes(old.tab) ? old.tab : ("transcript" as const);
        return { ...old, tab: target, turn, line: undefined, to_line: undefined, token: undefined };
      },
      resetScroll: false,
    }).catch(() => undefined);
  };
  const goTurn = (index: number) => step(() => turns.find((row) => row.index === index));
  const isWrong = (turn: OutlineTurn) => turn.isError || turn.hasNoAction;
  useKeys({
    j: () => open(neighbours.next),
    J: () => open(neighbours.next),
    k: () => open(neighbours.previous),
    K: () => open(neighbours.previous),
    "]": () => step((at) => turns[at + 1]),
    "[": () => step((at) => turns[Math.max(0, at - 1)]),
    e: () => step((at) => turns.slice(at + 1).find(isWrong)),
    E: () => step((at) => turns.slice(0, Math.max(0, at)).findLast(isWrong)),
  });
  return { goTurn, neighbours, open };
}

function Lead({ trajectory, filter }: { trajectory: TrajectoryDetail; filter: TrajectoriesSearch }) {
  const { run, group } = trajectory;
  return (
    <span className={classes.lead}>
      <Link to="/runs/$run/trajectories" params={{ run }} search={filter}>run {run}</Link>
      <span>trajectory {trajectory.id}</span>
      <span>{trajectory.stage}</span>
      <Link to="/runs/$run/groups/$group" params={{ run, group }}>group {group}, member {trajectory.index}</Link>
      <span>{trajectory.task.repository}</span>
    </span>
  );
}

function Attempts({ attempts, shown }: { attempts: readonly Attempt[]; shown: Attempt | undefined }) {
  return (
    <nav className={classes.attempts} aria-label="Attempts">
      {attempts.map((one) => (
        <Link
          key={one.number} from="/trajectories/$trajectory" className={classes.attempt} data-active={one.number === shown?.number}
          search={(old) => ({ ...old, attempt: one.number, turn: undefined, line: undefined, to_line: undefined, token: undefined })}
        >
          attempt {one.number} <StatusBadge face={ATTEMPT_STATUS[one.status]} />
        </Link>
      ))}
    </nav>
  );
}

function FailurePanel({ attempt, trajectory }: { attempt: Attempt; trajectory: TrajectoryDetail }) {
  const { failure } = attempt;
  if (failure === null) return null;
  const isNewest = attempt.number === trajectory.attempts.at(-1)?.number;
  return (
    <section className={classes.failure} aria-label="Infrastructure failure">
      <h2>
        <Icon name="hatch" /> The infrastructure failed at {failure.stage}: {words(failure.kind)}
      </h2>
      <CodeBlock label="failure message" text={failure.message} />
      <p>
        This attempt has no reward and counts in no mean.{" "}
        {isNewest && trajectory.failure_group !== null && (
          <Link to="/failures/$group" params={{ group: trajectory.failure_group }}>All failures with this fingerprint</Link>
        )}
      </p>
    </section>
  );
}

/** The trajectories before and after this one in the filtered list that the reader came from. */
function useNeighbours(id: number, run: number, filter: TrajectoriesSearch) {
  const list = useInfiniteQuery(trajectoriesQuery(run, filter));
  const ids = list.data?.pages.flatMap((page) => page.results.map((row) => row.id)) ?? [];
  const at = ids.indexOf(id);
  return { previous: at > 0 ? ids[at - 1] : undefined, next: at >= 0 ? ids[at + 1] : undefined };
}
