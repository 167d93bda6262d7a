import { Button, Select } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { checkpointsQuery, recipeSchemaQuery, recipesQuery, runQuery, runRecipeQuery } from "../../api/runs";
import { ErrorState } from "../../components/ErrorState";
import { Loading } from "../../components/Loading";
import { Page } from "../../components/Page";
import { draftName, nextName } from "./draft";
import { LaunchForm } from "./LaunchForm";
import classes from "./NewRunPage.module.css";
import { valueAt } from "./recipeSchema";
import { parseRecipe } from "./recipeYaml";

const route = getRouteApi("/shell/runs/new");

/** Pick a stored recipe, another run or a checkpoint of it; change it, check it, launch it. */
export function NewRunPage() {
  const { recipe: chosen, from_run: fromRun, from_checkpoint: fromCheckpoint } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: recipes } = useSuspenseQuery(recipesQuery());
  const { data: schema } = useSuspenseQuery(recipeSchemaQuery());
  const isClone = fromRun !== undefined;
  const parent = useQuery({ ...runQuery(fromRun ?? 0), enabled: isClone });
  const parentRecipe = useQuery({ ...runRecipeQuery(fromRun ?? 0), enabled: isClone });
  const checkpoints = useQuery({ ...checkpointsQuery(fromRun ?? 0), enabled: isClone && fromCheckpoint !== undefined });

  const error = parent.error ?? parentRecipe.error ?? checkpoints.error;
  if (error !== null) return <ErrorState error={error} />;
  if (parent.isLoading || parentRecipe.isLoading || checkpoints.isLoading) return <Loading />;

  const stored = recipes.find((recipe) => recipe.name === chosen) ?? recipes[0];
  const source = (isClone ? parentRecipe.data?.source : stored?.source) ?? "";
  const origin = {
    source,
    label: isClone ? `run ${fromRun}` : stored === undefined ? "nothing" : `the stored recipe ${stored.name}`,
    name: parent.data === undefined ? "" : nextName(parent.data.name),
    fromRun,
    fromCheckpoint,
  };
  const picker = (
    <Select
      label="Recipe"
      description={descriptionOf(source)}
      inputWrapperOrder={["label", "input", "description"]}
      data={recipes.map((recipe) => recipe.name)}
      value={isClone ? null : (stored?.name ?? null)}
      placeholder={isClone ? `of run ${fromRun}` : "none is stored"}
      allowDeselect={false}
      onChange={(recipe) => {
        navigate({ search: recipe === null ? {} : { recipe } }).catch(() => undefined);
      }}
    />
  );
  const checkpoint = checkpoints.data?.find((one) => one.id === fromCheckpoint);
  const lead = isClone ? (
    <>
      Cloned from{" "}
      <Link to="/runs/$run/overview" params={{ run: fromRun }}>
        {parent.data?.name ?? `run ${fromRun}`}
      </Link>{" "}
      (run {fromRun})
      {fromCheckpoint !== undefined &&
        (checkpoint === undefined
          ? `, starting from checkpoint ${fromCheckpoint}`
          : `, starting from its weights after step ${checkpoint.step} of ${checkpoint.stage}, with a fresh optimizer. Take out the stages that they have behind them.`)}
    </>
  ) : recipes.length > 0 ? (
    "From a stored recipe. The stored one stays as it is."
  ) : (
    "No recipe is stored yet: paste one, or open a file."
  );
  return (
    <Page
      title="New run"
      lead={lead}
      actions={
        isClone && (
          <Button variant="default" renderRoot={(props) => <Link {...props} to="/runs/new" />}>
            Start from a stored recipe
          </Button>
        )
      }
    >
      <div className={classes.page}>
        <LaunchForm
          key={draftName({ recipe: stored?.name, fromRun, fromCheckpoint })}
          draftName={draftName({ recipe: stored?.name, fromRun, fromCheckpoint })}
          origin={origin}
          schema={schema}
          picker={picker}
          onLaunched={(run) => {
            navigate({ to: "/runs/$run/overview", params: { run } }).catch(() => undefined);
          }}
        />
      </div>
    </Page>
  );
}

function descriptionOf(source: string): string {
  const description = valueAt(parseRecipe(source).value, ["description"]);
  return typeof description === "string" ? description : "";
}
