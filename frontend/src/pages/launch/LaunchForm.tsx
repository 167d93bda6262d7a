import { Button, FileButton, Textarea, TextInput } from "@mantine/core";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";

import { useProject } from "../../api/me";
import { Problem } from "../../api/problem";
import { useLaunchRun, usePreflight } from "../../api/runs";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { Icon } from "../../components/Icon";
import { cliCommand } from "../../lib/commands";
import { visibleText } from "../../lib/format";
import { Checks } from "./Checks";
import { Diff } from "./Diff";
import { type Draft, keepDraft, readDraft } from "./draft";
import { DryRun } from "./DryRun";
import classes from "./NewRunPage.module.css";
import { fieldId, RecipeForm } from "./RecipeForm";
import type { Schema } from "./recipeSchema";
import { parseRecipe, pathOf, rangeOf, type YamlError } from "./recipeYaml";

export type LaunchOrigin = { source: string; label: string; name: string; fromRun: number | undefined; fromCheckpoint: number | undefined };
type Props = { draftName: string; origin: LaunchOrigin; schema: Schema; picker: ReactNode; onLaunched: (run: number) => void };

/** Form and text of one recipe in step; what the server finds wrong is shown at its field. */
export function LaunchForm({ draftName, origin, schema, picker, onLaunched }: Props) {
  const project = useProject();
  const [draft, setDraft, isRestored] = useDraft(draftName, origin);
  const editor = useRef<HTMLTextAreaElement>(null);
  const preflight = usePreflight(project.slug);
  const launch = useLaunchRun(project.slug);
  const { recipe, error: yamlError } = useRecipe(draft.source);

  const from = origin.fromCheckpoint === undefined ? {} : { from_checkpoint: origin.fromCheckpoint };
  const isCurrent = preflight.data !== undefined && preflight.variables.source === draft.source;
  const isRefused = launch.isError && launch.variables.source === draft.source;
  const errors = useMemo(() => {
    const found = isRefused && launch.error instanceof Problem ? launch.error.errors : [];
    const checks = isCurrent ? preflight.data.checks.filter((check) => check.level === "error") : [];
    return new Map([...checks.map((check) => [check.pointer, check.sentence] as const), ...found.map((one) => [one.pointer, one.message] as const)]);
  }, [isCurrent, isRefused, launch.error, preflight.data]);

  const edit = (source: string) => setDraft({ ...draft, source, key: crypto.randomUUID() });
  const goTo = (pointer: string) => {
    if (!focusField(pointer)) focusText(editor.current, draft.source, pointer);
  };
  const send = () =>
    launch.mutate(
      {
        key: draft.key, source: draft.source, ...from, ...(origin.fromRun === undefined ? {} : { from_run: origin.fromRun }),
        ...(draft.name.trim() === "" ? {} : { name: draft.name.trim() }),
      },
      {
        onSuccess: (run) => {
          keepDraft(draftName, null);
          onLaunched(run.id);
        },
        onError: (error) => {
          const [first] = error instanceof Problem ? error.errors : [];
          if (first !== undefined) requestAnimationFrame(() => goTo(first.pointer)); // when the field shows its error
        },
      },
    );
  const refusal = refusalOf(project.role === "viewer", draft.source, yamlError, isCurrent && !preflight.data.is_launchable);
  const command = cliCommand("runs launch -f RECIPE.yaml", { from_run: origin.fromRun, from_checkpoint: origin.fromCheckpoint });

  return (
    <>
      <div className={classes.top}>
        <div className={classes.settings}>{picker}</div>
        <div className={classes.settings}>
          <TextInput
            label="Name" description={origin.name === "" ? "The recipe's own where it is empty" : "Suggested; the recipe's own where it is empty"}
            inputWrapperOrder={["label", "input", "description"]}
            placeholder="as in the recipe" value={draft.name} onChange={(event) => setDraft({ ...draft, name: event.currentTarget.value })} maxLength={200}
          />
        </div>
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
          <Button
            variant="default" loading={preflight.isPending} disabled={project.role === "viewer" || draft.source.trim() === ""}
            onClick={() => preflight.mutate({ source: draft.source, ...from })}
          >
            Check
          </Button>
          <Button loading={launch.isPending} disabled={refusal !== null} onClick={send}>
            Launch
          </Button>
        </div>
      </div>
      {refusal !== null && <p className={classes.refusal}>{refusal}</p>}
      {isRestored && (
        <p className={classes.refusal}>
          Your draft is as you left it.{" "}
          <button type="button" className={classes.link} onClick={() => setDraft({ source: origin.source, name: origin.name, key: crypto.randomUUID() })}>
            Begin anew from {origin.label}
          </button>
        </p>
      )}
      {launch.isError && (launch.error instanceof Problem && launch.error.errors.length > 0 ? <Refusal problem={launch.error} onGoTo={goTo} /> : <ErrorState error={launch.error} />)}
      {preflight.isError && <ErrorState error={preflight.error} />}
      {preflight.data !== undefined && <Checks checks={preflight.data.checks} isOld={!isCurrent} onGoTo={goTo} />}
      {preflight.data?.plan != null && isCurrent && <DryRun plan={preflight.data.plan} />}
      <div className={classes.editors}>
        <RecipeForm schema={schema} source={draft.source} recipe={recipe} isLocked={yamlError !== null} errors={errors} onChange={edit} />
        <div className={classes.text}>
          <Textarea
            ref={editor}
            label="Recipe (YAML)"
            description={draft.source === origin.source ? `As in ${origin.label}` : "Changed for this run"}
            error={yamlError === null ? undefined : `Line ${yamlError.line}, column ${yamlError.column}: ${yamlError.message} The form shows the recipe as it was.`}
            classNames={{ input: classes.source ?? "" }}
            value={draft.source}
            onChange={(event) => edit(event.currentTarget.value)}
            spellCheck={false}
            autosize
            minRows={24}
            maxRows={36}
          />
          <section aria-label="Changes" className={classes.changes}>
            <h2>Changes to {origin.label}</h2>
            <Diff before={origin.source} after={draft.source} label="Changes" same="None yet." />
          </section>
          <div className={classes.shell}>
            <code>{command}</code>
            <CopyButton text={command} label="Copy the command" />
          </div>
        </div>
      </div>
    </>
  );
}

/** Which fields are wrong and what to do about them, in the server's words. */
function Refusal({ problem, onGoTo }: { problem: Problem; onGoTo: (pointer: string) => void }) {
  return (
    <div className={classes.refused} role="alert">
      <h2>
        <Icon name="alert" /> {problem.message}
      </h2>
      <ul>
        {problem.errors.map(({ pointer, message }) => (
          <li key={pointer + message}>
            <button type="button" className={classes.link} onClick={() => onGoTo(pointer)}>
              <code>{pointer}</code>
            </button>{" "}
            {visibleText(message)}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The draft of this tab, or a fresh one of the origin. */
function useDraft(name: string, origin: LaunchOrigin): [Draft, (draft: Draft) => void, boolean] {
  const [kept] = useState(() => readDraft(name));
  const [draft, setDraft] = useState<Draft>(() => kept ?? { source: origin.source, name: origin.name, key: crypto.randomUUID() });
  const isChanged = draft.source !== origin.source || draft.name !== origin.name;
  useEffect(() => keepDraft(name, isChanged ? draft : null), [name, draft, isChanged]);
  return [draft, setDraft, kept !== null && isChanged];
}

/** The recipe of the newest text that was YAML. */
function useRecipe(source: string): { recipe: unknown; error: YamlError | null } {
  const parsed = useMemo(() => parseRecipe(source), [source]);
  const [last, setLast] = useState<unknown>({});
  if (parsed.error === null && parsed.value !== last) setLast(parsed.value); // kept for texts that are none
  return parsed.error === null ? { recipe: parsed.value, error: null } : { recipe: last, error: parsed.error };
}

function refusalOf(isViewer: boolean, source: string, yamlError: YamlError | null, isFaulty: boolean): string | null {
  if (isViewer) return "Viewers may look, operators may launch.";
  if (source.trim() === "") return "There is no recipe yet.";
  if (yamlError !== null) return `The text is not YAML: line ${yamlError.line}, column ${yamlError.column}.`;
  return isFaulty ? "The check found errors; mend them first." : null;
}

/** Opens the parts of the form that hide a field, and goes there. */
function focusField(pointer: string): boolean {
  const field = document.getElementById(fieldId(pointer));
  if (field === null) return false;
  for (let part = field.closest("details"); part !== null; part = part.parentElement?.closest("details") ?? null) part.open = true;
  field.scrollIntoView({ block: "center" });
  field.focus();
  return true;
}

function focusText(editor: HTMLTextAreaElement | null, source: string, pointer: string): void {
  if (editor === null) return;
  let path = pathOf(pointer);
  let range = rangeOf(source, path);
  while (range === null && path.length > 1) {
    path = path.slice(0, -1);
    range = rangeOf(source, path);
  }
  editor.focus();
  if (range !== null) editor.setSelectionRange(...range);
  editor.scrollIntoView({ block: "center" });
}
