import { Link } from "@tanstack/react-router";

import type { FullRecipe } from "../../../api/overview";
import type { Overview, RunDetail } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { ScrollRegion } from "../../../components/ScrollRegion";
import { formatCount } from "../../../lib/format";
import classes from "./figures.module.css";

type Props = { run: RunDetail; recipe: FullRecipe | undefined; origin: Overview["origin"] };

/** What was launched, and what differs from the run it was cloned from (article, figure 3). */
export function RecipeCard({ run, recipe, origin }: Props) {
  const lines = recipe === undefined ? [] : linesOf(run, recipe);
  const rows = (
    <tbody>
      {lines.map(({ name, value }) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td className={classes.wrap}>{value}</td>
        </tr>
      ))}
    </tbody>
  );
  return (
    <ChartFrame
      title="Recipe and versions" note={`${run.recipe}, seed ${run.seed}`}
      actions={<Link to="/runs/$run/config" params={{ run: run.id }}>All of it</Link>}
      twin={<table>{rows}</table>}
    >
      <table className={classes.table}>{rows}</table>
      {origin !== null && <Changes run={run.id} origin={origin} />}
    </ChartFrame>
  );
}

/** More changes than this are another recipe; the comparison has them all. */
const MOST = 12;

function Changes({ run, origin }: { run: number; origin: NonNullable<Overview["origin"]> }) {
  return (
    <>
      <p className={classes.sentence}>
        Cloned from <Link to="/runs/$run/overview" params={{ run: origin.id }}>{origin.name}</Link>
        {origin.changes.length === 0 ? " without a change" : `, ${origin.changes.length} field${origin.changes.length > 1 ? "s" : ""} changed`}
      </p>
      {origin.changes.length > 0 && (
        <ScrollRegion className={classes.scroll} label="Changes, table">
          <table className={classes.table}>
            <thead>
              <tr><th scope="col">field</th><th scope="col">{origin.name}</th><th scope="col">this run</th></tr>
            </thead>
            <tbody>
              {origin.changes.slice(0, MOST).map(({ path, before, after }) => (
                <tr key={path}>
                  <th scope="row"><code>{path}</code></th>
                  <td>{shown(before)}</td>
                  <td>{shown(after)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
      {origin.changes.length > MOST && (
        <p className={classes.sentence}>
          {origin.changes.length - MOST} more in <Link to="/runs/compare" search={{ ids: `${origin.id},${run}` }}>the comparison of the two runs</Link>
        </p>
      )}
    </>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function linesOf(run: Pick<RunDetail, "weight_version">, recipe: FullRecipe): { name: string; value: string }[] {
  const { model, agent, rollout, engines, sandbox, trainer } = recipe;
  const sft = recipe.stages.filter((stage) => stage.kind === "sft").map((stage) => `${stage.name}: ${stage.epochs} epoch${stage.epochs === 1 ? "" : "s"} of ${stage.traces}`);
  const rl = recipe.stages.filter((stage) => stage.kind === "rl").map(
    (stage) =>
      `${stage.algorithm.advantage}, ${stage.groups_per_step} × ${stage.group_size} a step, ${formatCount(stage.num_steps)} steps, staleness ≤ ${stage.max_staleness}, learning rate ${stage.algorithm.learning_rate}`,
  );
  return [
    { name: "Model", value: `${model.path}, context ${formatCount(model.context_length)}, weights v${run.weight_version}` },
    { name: "Task sets", value: Object.entries(recipe.task_sets).map(([name, set]) => `${name}: ${set}`).join(", ") },
    ...sft.map((value) => ({ name: "SFT", value })),
    ...rl.map((value) => ({ name: "RL", value })),
    { name: "Limits", value: `${formatCount(agent.turn_token_cap)} tokens a turn, ${formatCount(agent.token_cap)} a trajectory, ${formatCount(agent.turn_cap)} turns` },
    { name: "In flight", value: `${formatCount(rollout.max_in_flight)} trajectories, ${engines.num_engines} engine${engines.num_engines === 1 ? "" : "s"} (${engines.kind})` },
    { name: "Sandbox", value: `${sandbox.driver}, ${formatCount(sandbox.memory_mb)} MB` },
    { name: "Trainer", value: `${trainer.backend}, checkpoint every ${trainer.checkpoint_every} steps` },
  ];
}
