import { Button, Group } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { runQuery, runRecipeQuery } from "../../api/runs";
import { CodeBlock } from "../../components/CodeBlock";
import { CopyAs } from "../../components/CopyAs";
import { ErrorState } from "../../components/ErrorState";
import classes from "./ConfigTab.module.css";
import { Diff } from "./Diff";
import { ResolvedTable } from "./ResolvedTable";

const route = getRouteApi("/shell/runs/$run/config");

/** The run's own copy of its recipe: the text, what it means with its defaults, and what changed from the run it was cloned from. */
export function ConfigTab() {
  const { run: id } = route.useParams();
  const { data } = useSuspenseQuery(runRecipeQuery(id));
  const { data: run } = useSuspenseQuery(runQuery(id));
  const parent = run.cloned_from;
  const parentRecipe = useQuery({ ...runRecipeQuery(parent?.id ?? 0), enabled: parent !== null });
  return (
    <>
      <Group mb="md" gap="sm">
        <Button variant="default" renderRoot={(props) => <Link {...props} to="/runs/new" search={{ from_run: id }} />}>
          New run from this recipe
        </Button>
        <CopyAs path={`/api/v1/runs/${id}/recipe`} cli={`longtail runs recipe ${id}`} />
      </Group>
      {parent !== null && (
        <section className={classes.part} aria-label="Changes">
          <h2>
            Changes to{" "}
            <Link to="/runs/$run/config" params={{ run: parent.id }}>
              {parent.name}
            </Link>{" "}
            (run {parent.id})
          </h2>
          {parentRecipe.isError && <ErrorState error={parentRecipe.error} />}
          {parentRecipe.data !== undefined && (
            <Diff before={parentRecipe.data.source} after={data.source} label="Changes" same="None: the recipe is the same." />
          )}
        </section>
      )}
      <div className={classes.columns}>
        <section aria-label="Source" className={classes.part}>
          <h2>As written</h2>
          <CodeBlock text={data.source} label="recipe" />
        </section>
        <section aria-label="Resolved" className={classes.part}>
          <h2>With every default</h2>
          <ResolvedTable recipe={data.recipe} label="the resolved recipe" />
        </section>
      </div>
    </>
  );
}
