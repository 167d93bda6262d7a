import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link, Outlet } from "@tanstack/react-router";

import { useProject } from "../../api/me";
import { runQuery } from "../../api/runs";
import { Page } from "../../components/Page";
import { StatusBadge } from "../../components/StatusBadge";
import { TabBar } from "../../components/TabBar";
import { Ago, Elapsed } from "../../components/Time";
import { RUN_TABS } from "../../lib/places";
import { RUN_STATUS } from "../../lib/status";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { DemoLabel } from "./DemoLabel";
import { RunActions } from "./RunActions";
import classes from "./RunPage.module.css";

const route = getRouteApi("/shell/runs/$run");

/** What the run is, what it waits for, and its pages. */
export function RunPage() {
  const { run: id } = route.useParams();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const project = useProject(run.project);
  useLive(topics.run(project.id, id));

  return (
    <Page
      title={run.name}
      badge={
        <>
          <StatusBadge face={RUN_STATUS[run.status]} />
          {run.is_demo && <DemoLabel />}
        </>
      }
      lead={
        <>
          <p className={classes.sentence}>{run.wait_sentence || run.stop_reason || RUN_STATUS[run.status].meaning}</p>
          <p className={classes.facts}>
            <span>run {run.id}</span>
            <span>recipe {run.recipe}</span>
            <span>seed {run.seed}</span>
            <span>weights v{run.weight_version}</span>
            {run.resume > 0 && (
              <Link to="/runs/$run/checkpoints" params={{ run: id }}>
                {run.resume === 1 ? "1 resume" : `${run.resume} resumes`}
              </Link>
            )}
            {run.cloned_from !== null && (
              <span>
                cloned from{" "}
                <Link to="/runs/$run/config" params={{ run: run.cloned_from.id }}>
                  {run.cloned_from.name}
                </Link>
              </span>
            )}
            {run.from_checkpoint !== null && (
              <span>
                began with the weights of{" "}
                <Link to="/runs/$run/checkpoints" params={{ run: run.from_checkpoint.run }}>
                  run {run.from_checkpoint.run}, step {run.from_checkpoint.step}
                </Link>
              </span>
            )}
            {run.checkpoint_asked_at !== null && (
              <span>
                checkpoint asked for <Ago at={run.checkpoint_asked_at} />
              </span>
            )}
            <span>
              <Elapsed from={run.started_at} to={run.finished_at} />
            </span>
          </p>
        </>
      }
      actions={<RunActions run={run} />}
    >
      <TabBar label="Run">
        {RUN_TABS.map(({ to, label }) => (
          <Link key={label} to={to} params={{ run: id }} activeProps={{ "data-active": true }}>
            {label}
          </Link>
        ))}
      </TabBar>
      <Outlet />
    </Page>
  );
}
