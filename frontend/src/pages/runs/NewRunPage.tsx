import { Button, NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { recipeSourceQuery, recipesQuery, useLaunchRun, usePreflight } from "../../api/runs";
import { sessionQuery } from "../../api/session";
import type { Finding } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Icon } from "../../components/Icon";
import { Page } from "../../components/Page";
import type { IconName } from "../../lib/status";
import classes from "./NewRunPage.module.css";

const route = getRouteApi("/shell/runs/new");

/** Pick a stored recipe, change it, check it, launch it. */
export function NewRunPage() {
  const { recipe: chosen, from_run: fromRun } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: session } = useSuspenseQuery(sessionQuery());
  const { data: recipes } = useSuspenseQuery(recipesQuery());
  const parent = useQuery({ ...recipeSourceQuery(fromRun ?? 0), enabled: fromRun !== undefined });
  const stored = recipes.results.find((recipe) => recipe.name === chosen) ?? recipes.results[0];
  const origin = fromRun === undefined ? stored?.source : parent.data?.source;

  if (fromRun !== undefined && parent.isError) return <ErrorState error={parent.error} />;
  if (origin === undefined) {
    return (
      <Page title="New run">
        {fromRun === undefined && (
          <EmptyState title="No recipe is stored" command="longtail recipes import recipes/miniature.yaml">
            A recipe names the model, the task sets, the stages and the limits of a run. Import one:
          </EmptyState>
        )}
      </Page>
    );
  }
  return (
    <Page title="New run" lead={fromRun === undefined ? undefined : `From the recipe of run ${fromRun}`}>
      <Editor
        key={fromRun ?? stored?.name}
        origin={origin}
        mayLaunch={session.user.role !== "viewer"}
        picker={
          fromRun === undefined && (
            <Select
              label="Recipe"
              data={recipes.results.map((recipe) => recipe.name)}
              value={stored?.name ?? null}
              allowDeselect={false}
              onChange={(recipe) => {
                navigate({ search: recipe === null ? {} : { recipe } }).catch(() => undefined);
              }}
            />
          )
        }
        onLaunched={(run) => {
          navigate({ to: "/runs/$run/overview", params: { run } }).catch(() => undefined);
        }}
      />
    </Page>
  );
}

type EditorProps = { origin: string; mayLaunch: boolean; picker: React.ReactNode; onLaunched: (run: number) => void };

function Editor({ origin, mayLaunch, picker, onLaunched }: EditorProps) {
  const [source, setSource] = useState(origin);
  const [name, setName] = useState("");
  const [seed, setSeed] = useState<number | "">("");
  // One key for the life of the form: sending twice launches once. A changed recipe is another launch.
  const [key] = useState(() => crypto.randomUUID());
  const preflight = usePreflight();
  const launch = useLaunchRun();
  const overrides = { ...(seed === "" ? {} : { seed }), ...(name === "" ? {} : { name }) };
  const isChecked = preflight.data !== undefined && preflight.variables.source === source;

  const refusal = !mayLaunch
    ? "Viewers may look, operators may launch."
    : isChecked && !preflight.data.is_launchable
      ? "The check found errors; see the list."
      : null;

  return (
    <div className={classes.page}>
      <div className={classes.settings}>
        {picker}
        <TextInput label="Name" placeholder="as in the recipe" value={name} onChange={(event) => setName(event.currentTarget.value)} />
        <NumberInput label="Seed" placeholder="as in the recipe" value={seed} min={0} allowDecimal={false} onChange={(value) => setSeed(typeof value === "number" ? value : "")} />
        <div className={classes.buttons}>
          <Button
            variant="default"
            loading={preflight.isPending}
            onClick={() => preflight.mutate({ source, ...(seed === "" ? {} : { seed }) })}
          >
            Check
          </Button>
          <Button
            loading={launch.isPending}
            disabled={refusal !== null}
            onClick={() => launch.mutate({ key, source, ...overrides }, { onSuccess: (run) => onLaunched(run.id) })}
          >
            Launch
          </Button>
        </div>
        {refusal !== null && <p className={classes.refusal}>{refusal}</p>}
        {launch.isError && <ErrorState error={launch.error} />}
        {preflight.isError && <ErrorState error={preflight.error} />}
        {preflight.data !== undefined && <Findings findings={preflight.data.findings} isOld={!isChecked} />}
        <div className={classes.shell}>
          <span>From a shell</span>
          <CopyButton text={`longtail runs launch RECIPE.yaml${seed === "" ? "" : ` --seed ${seed}`}`} label="Copy the command" />
        </div>
      </div>
      <Textarea
        label="Recipe (YAML)"
        description={source === origin ? "Unchanged" : "Changed; the stored recipe stays as it is"}
        classNames={{ input: classes.source ?? "" }}
        value={source}
        onChange={(event) => setSource(event.currentTarget.value)}
        spellCheck={false}
        autosize
        minRows={24}
        maxRows={40}
      />
    </div>
  );
}

const LEVEL: Record<Finding["level"], { icon: IconName; word: string }> = {
  ok: { icon: "check", word: "fine" },
  warning: { icon: "alert", word: "warning" },
  error: { icon: "cross", word: "error" },
};

function Findings({ findings, isOld }: { findings: Finding[]; isOld: boolean }) {
  return (
    <section aria-label="Check" aria-live="polite" className={classes.findings} data-old={isOld}>
      <h2>{isOld ? "Check (of an older text)" : "Check"}</h2>
      <ul>
        {findings.map((finding) => (
          <li key={finding.pointer + finding.message} data-level={finding.level}>
            <span className={classes.icon} title={LEVEL[finding.level].word}>
              <Icon name={LEVEL[finding.level].icon} />
            </span>
            <span>
              {finding.pointer !== "" && <code>{finding.pointer}</code>} {finding.message}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
