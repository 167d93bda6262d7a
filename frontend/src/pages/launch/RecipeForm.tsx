import { Button, Group } from "@mantine/core";

import { FieldInput, isLong } from "./FieldInput";
import classes from "./RecipeForm.module.css";
import { formatField, type Schema, type Section, sectionsOf, stageSections, valueAt } from "./recipeSchema";
import { type Path, withItem, withoutItem, withValue } from "./recipeYaml";

type Props = {
  schema: Schema;
  source: string;
  /** The text as it was read last; while the text is no YAML, the form shows this and cannot be edited. */
  recipe: unknown;
  isLocked: boolean;
  /** By pointer. */
  errors: ReadonlyMap<string, string>;
  onChange: (source: string) => void;
};

/** The recipe as fields, drawn from the schema of the server. An edit rewrites only its key in the text. */
export function RecipeForm({ schema, source, recipe, isLocked, errors, onChange }: Props) {
  const kinds = stageSections(schema);
  const stages = valueAt(recipe, ["stages"]);
  const shared = { recipe, errors, onEdit: (path: Path, value: unknown) => onChange(withValue(source, path, value)) };
  const add = (kind: string) => onChange(withItem(source, ["stages"], newStage(kind, recipe)));
  return (
    <fieldset className={classes.form} disabled={isLocked}>
      <legend className={classes.legend}>Recipe (form)</legend>
      {sectionsOf(schema).map((section) => (
        <Part key={section.name} {...shared} section={section} path={section.name === "" ? [] : [section.name]} title={section.name || "general"} isOpen={section.name === ""} />
      ))}
      <h2 className={classes.heading}>stages</h2>
      {(Array.isArray(stages) ? stages : []).map((stage: unknown, index) => {
        const kind = formatField(valueAt(stage, ["kind"]));
        const section = kinds[kind];
        const name = formatField(valueAt(stage, ["name"]));
        if (section === undefined) return null;
        return (
          <Part
            key={`${index} ${kind}`} {...shared} section={section} path={["stages", index]} title={`${index + 1}. ${name} · ${kind}`} isOpen={false}
            remove={<Button variant="default" onClick={() => onChange(withoutItem(source, ["stages"], index))} aria-label={`Remove stage ${name}`}>Remove</Button>}
          />
        );
      })}
      <Group gap="sm" mt="sm">
        {Object.keys(kinds).map((kind) => (
          <Button key={kind} variant="default" onClick={() => add(kind)}>
            Add {kind} stage
          </Button>
        ))}
      </Group>
    </fieldset>
  );
}

type PartProps = {
  section: Section;
  path: Path;
  title: string;
  isOpen: boolean;
  recipe: unknown;
  errors: ReadonlyMap<string, string>;
  onEdit: (path: Path, value: unknown) => void;
  remove?: React.ReactNode;
};

function Part({ section, path, title, isOpen, recipe, errors, onEdit, remove }: PartProps) {
  const numSet = countSet(valueAt(recipe, path), section);
  const hasError = [...errors.keys()].some((pointer) => pointer.startsWith(`/${path.join("/")}`) && path.length > 0);
  return (
    <details className={classes.part} open={isOpen || hasError}>
      <summary className={classes.summary}>
        <span>{title}</span>
        <span className={classes.count}>{numSet === 0 ? "defaults" : `${numSet} set`}</span>
      </summary>
      {section.description !== "" && <p className={classes.about}>{section.description}</p>}
      <div className={classes.fields}>
        {section.fields.map((field) => {
          const at = [...path, field.name];
          const pointer = `/${at.join("/")}`;
          return (
            <FieldInput
              key={pointer} id={fieldId(pointer)} className={isLong(field) ? classes.wide : undefined} field={field} value={valueAt(recipe, at)}
              error={errors.get(pointer)} onChange={(value) => onEdit(at, value)}
            />
          );
        })}
      </div>
      {section.sections.map((inner) => (
        <Part key={inner.name} section={inner} path={[...path, inner.name]} title={inner.name} isOpen={false} recipe={recipe} errors={errors} onEdit={onEdit} />
      ))}
      {remove}
    </details>
  );
}

export function fieldId(pointer: string): string {
  return `field${pointer.replaceAll("/", "-")}`;
}

function countSet(value: unknown, section: Section): number {
  if (typeof value !== "object" || value === null) return 0;
  const names = [...section.fields, ...section.sections].map((one) => one.name);
  return Object.keys(value).filter((key) => names.includes(key)).length;
}

function newStage(kind: string, recipe: unknown): Record<string, unknown> {
  const stages = valueAt(recipe, ["stages"]);
  const names = (Array.isArray(stages) ? stages : []).map((stage) => valueAt(stage, ["name"]));
  const base = kind === "eval" ? "eval" : `${kind}-training`;
  let name = base;
  for (let number = 2; names.includes(name); number += 1) name = `${base}-${number}`;
  const [taskSet] = Object.keys(valueAt(recipe, ["task_sets"]) ?? {});
  if (kind === "sft") return { kind, name, traces: "traces.jsonl" };
  return { kind, name, task_set: taskSet ?? "train", ...(kind === "rl" ? { num_steps: 10 } : {}) };
}
