import { Button, FileButton, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { useProject } from "../../api/me";
import { recipesQuery, runRecipeQuery, useLaunchRun, usePreflight } from "../../api/runs";
import type { Check } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { Icon } from "../../components/Icon";
import { Loading } from "../../components/Loading";
import { Page } from "../../components/Page";
import { formatNumber, words } from "../../lib/format";
import type { IconName } from "../../lib/status";
import classes from "./NewRunPage.module.css";

const route = getRouteApi("/shell/runs/new");

/** Pick a stored recipe or another run's, change it, check it, launch it. */
export function NewRunPage() {
  const { recipe: chosen, from_run: fromRun } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: recipes } = useSuspenseQuery(recipesQuery());
  const parent = useQuery({ ...runRecipeQuery(fromRun ?? 0), enabled: fromRun !== undefined });
  const stored = recipes.find((recipe) => recipe.name === chosen) ?? recipes[0];
  const origin = (fromRun === undefined ? stored?.source : parent.data?.source) ?? "";

  if (parent.isError) return <ErrorState error={parent.error} />;
  if (parent.isLoading) return <Loading />;
  const picker = recipes.length > 0 && (
    <Select
      label="Recipe"
      data={recipes.map((recipe) => recipe.name)}
      value={fromRun === undefined ? (stored?.name ?? null) : null}
      placeholder={`as run ${fromRun ?? ""}`}
      allowDeselect={false}
      onChange={(recipe) => {
        navigate({ search: recipe === null ? {} : { recipe } }).catch(() => undefined);
      }}
    />
  );
  return (
    <Page title="New run" lead={leadOf(fromRun, recipes.length)}>
      <Editor
        key={fromRun ?? stored?.name}
        origin={origin}
        picker={picker}
        onLaunched={(run) => {
          navigate({ to: "/runs/$run/overview", params: { run } }).catch(() => undefined);
        }}
      />
    </Page>
  );
}

function leadOf(fromRun: number | undefined, numRecipes: number): string {
  if (fromRun !== undefined) return `From the recipe of run ${fromRun}`;
  return numRecipes > 0 ? "From a stored recipe" : "No recipe is stored yet: paste one, or open a file.";
}

type EditorProps = { origin: string; picker: ReactNode; onLaunched: (run: number) => void };

function Editor({ origin, picker, onLaunched }: EditorProps) {
  const project = useProject();
  const [source, setSource] = useState(origin);
  const [name, setName] = useState("");
  // A resent launch of the same text is the same run; another text is another run.
  const [key, setKey] = useState(() => crypto.randomUUID());
  const preflight = usePreflight(project.slug);
  const launch = useLaunchRun(project.slug);
  const isCurrent = preflight.data !== undefined && preflight.variables === source;

  const edit = (text: string) => {
    setSource(text);
    setKey(crypto.randomUUID());
  };
  const refusal =
    project.role === "viewer"
      ? "Viewers may look, operators may launch."
      : source.trim() === ""
        ? "There is no recipe yet."
        : isCurrent && !preflight.data.is_launchable
        ? "The check found errors; mend them first."
        : null;

  return (
    <div className={classes.page}>
      <div className={classes.settings}>
        {picker}
        <TextInput label="Name" placeholder="as in the recipe" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={200} />
        <div className={classes.buttons}>
          <FileButton
            accept=".yaml,.yml,text/yaml"
            onChange={(file) => {
              file?.text().then(edit, () => undefined); // a file that cannot be read changes nothing
            }}
          >
            {(props) => (
              <Button variant="default" {...props}>
                Open a file
              </Button>
            )}
          </FileButton>
          <Button variant="default" loading={preflight.isPending} disabled={project.role === "viewer" || source.trim() === ""} onClick={() => preflight.mutate(source)}>
            Check
          </Button>
          <Button
            loading={launch.isPending}
            disabled={refusal !== null}
            onClick={() =>
              launch.mutate({ key, source, ...(name.trim() === "" ? {} : { name: name.trim() }) }, { onSuccess: (run) => onLaunched(run.id) })
            }
          >
            Launch
          </Button>
        </div>
        {refusal !== null && <p className={classes.refusal}>{refusal}</p>}
        {launch.isError && <ErrorState error={launch.error} />}
        {preflight.isError && <ErrorState error={preflight.error} />}
        {preflight.data !== undefined && <Checks checks={preflight.data.checks} isOld={!isCurrent} />}
        <div className={classes.shell}>
          <code>longtail runs launch RECIPE.yaml</code>
          <CopyButton text="longtail runs launch RECIPE.yaml" label="Copy the command" />
        </div>
      </div>
      <Textarea
        label="Recipe (YAML)"
        description={source === origin ? "Unchanged" : "Changed for this run; the stored recipe stays as it is"}
        classNames={{ input: classes.source ?? "" }}
        value={source}
        onChange={(event) => edit(event.currentTarget.value)}
        spellCheck={false}
        autosize
        minRows={24}
        maxRows={40}
      />
    </div>
  );
}

const LEVEL: Record<Check["level"], IconName> = { ok: "check", warning: "alert", error: "cross" };

function Checks({ checks, isOld }: { checks: Check[]; isOld: boolean }) {
  return (
    <section aria-label="Check" aria-live="polite" className={classes.checks} data-old={isOld}>
      <h2>{isOld ? "Check of an older text" : "Check"}</h2>
      <ul>
        {checks.map((check) => (
          <li key={check.name + check.pointer + check.sentence} data-level={check.level}>
            <span className={classes.icon} title={check.level}>
              <Icon name={LEVEL[check.level]} />
            </span>
            <span>
              <strong>{words(check.name)}</strong> {check.sentence}
              {check.measured !== null && (
                <span className={classes.figures}>
                  measured {figure(check.measured)}
                  {check.configured !== null && `, configured ${figure(check.configured)}`}
                </span>
              )}
              {check.pointer !== "" && <code className={classes.pointer}>{check.pointer}</code>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function figure(value: number | string): string {
  return typeof value === "number" ? formatNumber(value) : value;
}
