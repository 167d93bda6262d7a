import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link, Outlet } from "@tanstack/react-router";

import { useProject } from "../../api/me";
import { runQuery } from "../../api/runs";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { TabBar } from "../../components/TabBar";
import { Elapsed } from "../../components/Time";
import { RUN_STATUS } from "../../lib/status";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { RunActions } from "./RunActions";
import classes from "./RunPage.module.css";

const route = getRouteApi("/shell/runs/$run");

const TABS = [
  { to: "/runs/$run/overview", label: "Overview" },
  { to: "/runs/$run/charts", label: "Charts" },
  { to: "/runs/$run/steps", label: "Steps" },
  { to: "/runs/$run/tail", label: "Long tail" },
  { to: "/runs/$run/trajectories", label: "Trajectories" },
  { to: "/runs/$run/groups", label: "Groups" },
  { to: "/runs/$run/sandboxes", label: "Sandboxes" },
  { to: "/runs/$run/failures", label: "Failures" },
  { to: "/runs/$run/engines", label: "Engines" },
  { to: "/runs/$run/checkpoints", label: "Checkpoints" },
  { to: "/runs/$run/evals", label: "Evaluations" },
  { to: "/runs/$run/events", label: "Events" },
  { to: "/runs/$run/config", label: "Recipe" },
] as const;

/** What the run is, what it waits for, and its pages. */
export function RunPage() {
  const { run: id } = route.useParams();
  const project = useProject();
  const { data: run } = useSuspenseQuery(runQuery(id));
  useLive(topics.run(project.id, id));

  return (
    <Page
      title={run.name}
      badge={<StatusBadge face={RUN_STATUS[run.status]} />}
      lead={
        <>
          <p className={classes.sentence}>{run.wait_sentence || run.stop_reason || RUN_STATUS[run.status].meaning}</p>
          <p className={classes.facts}>
            <span>run {run.id}</span>
            <span>recipe {run.recipe}</span>
            <span>seed {run.seed}</span>
            <span>weights v{run.weight_version}</span>
            {run.resume > 0 && <span>resume {run.resume}</span>}
            <span>
              <Elapsed from={run.started_at} to={run.finished_at} />
            </span>
          </p>
        </>
      }
      actions={<RunActions run={run} role={project.role} />}
    >
      <TabBar label="Run">
        {TABS.map(({ to, label }) => (
          <Link key={label} to={to} params={{ run: id }} activeProps={{ "data-active": true }}>
            {label}
          </Link>
        ))}
      </TabBar>
      <Outlet />
    </Page>
  );
}
