import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { type FullRecipe, overviewQuery, useRecipe } from "../../api/overview";
import { metricsQuery, runQuery, stepsQuery } from "../../api/runs";
import { MetricChart } from "../../components/MetricChart";
import { Answers } from "./Answers";
import { EventFeed } from "./EventFeed";
import { Balance, BALANCE_CURVES } from "./figures/Balance";
import { BatchLanes } from "./figures/BatchLanes";
import { Cost } from "./figures/Cost";
import { curveOf, CURVES, Curves } from "./figures/Curves";
import { Drivers } from "./figures/Drivers";
import { Goodput } from "./figures/Goodput";
import { Lives } from "./figures/Lives";
import { LoopStepper } from "./figures/LoopStepper";
import { RecipeCard } from "./figures/RecipeCard";
import { SelectionBias } from "./figures/SelectionBias";
import { StageFunnel } from "./figures/StageFunnel";
import { StepBreakdown } from "./figures/StepBreakdown";
import { TimeSplit } from "./figures/TimeSplit";
import { Topology } from "./figures/Topology";
import classes from "./OverviewTab.module.css";
import { SolveRates } from "./SolveRates";
import { StageStepper } from "./StageStepper";

const route = getRouteApi("/shell/runs/$run/overview");

const METRICS = [...CURVES, ...BALANCE_CURVES, "train/loss", "sft/loss"] as const;

/** The first screen: is it alive, what does it wait for, does it learn, what is wrong; below, why. */
export function OverviewTab() {
  const { run: id } = route.useParams();
  const { time = "finished_ok" } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { data: overview } = useSuspenseQuery(overviewQuery(id));
  const { data: series } = useQuery(metricsQuery(id, METRICS));
  const { data: steps = [] } = useQuery(stepsQuery(id));
  const recipe = useRecipe(id);
  const algorithm = algorithmOf(recipe);

  return (
    <div className={classes.page}>
      <Answers run={run} overview={overview} series={series ?? []} maxGradNorm={algorithm?.max_grad_norm ?? Infinity} />
      <Topology run={id} overview={overview} />
      <StageStepper stages={run.stages} />

      <Section title="Learning">
        <div className={classes.grid}>
          <Curves series={series} maxGradNorm={algorithm?.max_grad_norm} tokenCap={recipe?.agent.token_cap} />
        </div>
        <div className={classes.wide}>
          <SolveRates stages={run.stages} />
          <EventFeed run={id} limit={9} />
        </div>
      </Section>

      <Section title="Steps">
        <div className={classes.grid}>
          <StepBreakdown run={id} steps={steps} />
          <Balance series={series} steps={steps} />
        </div>
      </Section>

      <Section title="The long tail">
        <div className={classes.tail}>
          <BatchLanes run={id} steps={steps} />
          <MetricChart
            title="Tail share" note="of a step's rollout time, after 90 % had finished"
            curves={[curveOf(series, "rollout/tail_share", "share", "--role-rollout")]} range={{ min: 0, max: 1 }}
          />
        </div>
      </Section>

      <Section title="Trajectories and sandboxes">
        <LoopStepper loop={overview.loop} />
        <div className={classes.halves}>
          <TimeSplit
            splits={overview.time} population={time}
            onPopulation={(population) => {
              navigate({ search: population === "finished_ok" ? {} : { time: population }, replace: true, resetScroll: false }).catch(() => undefined);
            }}
          />
          <Drivers drivers={overview.drivers} limit={overview.topology.max_in_flight} />
        </div>
        <StageFunnel run={id} funnel={overview.funnel} />
      </Section>

      <Section title="What it gave for what it used">
        <div className={classes.halves}>
          <Goodput fates={overview.fates} />
          <div className={classes.column}>
            <SelectionBias selection={overview.selection} />
            <Cost cost={overview.cost} calls={overview.calls} />
          </div>
        </div>
      </Section>

      <Section title="What runs">
        <div className={classes.halves}>
          <RecipeCard run={run} recipe={recipe} origin={overview.origin} />
          <Lives run={id} lives={overview.lives} />
        </div>
      </Section>
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={classes.section} aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function algorithmOf(recipe: FullRecipe | undefined) {
  return recipe?.stages.findLast((stage) => stage.kind === "rl")?.algorithm;
}
