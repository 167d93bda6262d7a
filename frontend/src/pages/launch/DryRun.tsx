import { Link } from "@tanstack/react-router";

import type { Plan } from "../../api/types";
import { ScrollRegion } from "../../components/ScrollRegion";
import { ABSENT, formatCount, formatDuration } from "../../lib/format";
import classes from "./Checks.module.css";
import { ResolvedTable } from "./ResolvedTable";

/** What a launch would do: stages with their work, and what that took in a finished run of the same recipe. */
export function DryRun({ plan }: { plan: Omit<Plan, "recipe"> & { recipe: unknown } }) {
  return (
    <section aria-label="Dry run" className={classes.checks}>
      <h2>Dry run</h2>
      <p className={classes.lead}>
        {plan.num_trajectories === null ? "The number of trajectories is not known: a task set is missing. " : `${formatCount(plan.num_trajectories)} trajectories. `}
        {plan.like === null ? (
          "No run of this recipe and model has finished here: time and tokens are not known."
        ) : (
          <>
            Time and tokens as in{" "}
            <Link to="/runs/$run/overview" params={{ run: plan.like.id }}>
              {plan.like.name}
            </Link>{" "}
            (run {plan.like.id}), in proportion.
          </>
        )}
      </p>
      <ScrollRegion className={classes.scroller} label="Stages to come">
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Stage</th>
              <th scope="col">Kind</th>
              <th scope="col" data-align="right">Tasks</th>
              <th scope="col" data-align="right">Steps</th>
              <th scope="col" data-align="right">Trajectories</th>
              <th scope="col" data-align="right">Sampled tokens, about</th>
              <th scope="col" data-align="right">Time, about</th>
            </tr>
          </thead>
          <tbody>
            {plan.stages.map((stage) => (
              <tr key={stage.name}>
                <th scope="row">{stage.name}</th>
                <td>{stage.kind}</td>
                <td data-align="right">{formatCount(stage.num_tasks)}</td>
                <td data-align="right">{formatCount(stage.num_steps)}</td>
                <td data-align="right">{formatCount(stage.num_trajectories)}</td>
                <td data-align="right">{stage.output_tokens === null ? ABSENT : formatCount(stage.output_tokens)}</td>
                <td data-align="right">{formatDuration(stage.seconds)}</td>
              </tr>
            ))}
            <tr>
              <th scope="row">all</th>
              <td />
              <td />
              <td />
              <td data-align="right">{formatCount(plan.num_trajectories)}</td>
              <td data-align="right">{formatCount(plan.output_tokens)}</td>
              <td data-align="right">{formatDuration(plan.seconds)}</td>
            </tr>
          </tbody>
        </table>
      </ScrollRegion>
      <details className={classes.resolved}>
        <summary>The recipe with every default</summary>
        <ResolvedTable recipe={plan.recipe} label="the resolved recipe" />
      </details>
    </section>
  );
}
