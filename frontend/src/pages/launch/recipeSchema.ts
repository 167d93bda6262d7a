/** The JSON schema of a recipe as fields to draw: only the types that a recipe uses. */

export type Schema = Readonly<Record<string, unknown>>;

type Common = { name: string; description: string; unit: string; fallback: unknown; isRequired: boolean };
export type Field = Common &
  (
    | { kind: "text" | "lines" }
    | { kind: "number"; isInteger: boolean; min: number | null; max: number | null }
    | { kind: "numbers"; count: number }
    | { kind: "choice"; choices: string[] }
    | { kind: "flag" }
    | { kind: "words" }
  );
export type Section = { name: string; description: string; fields: Field[]; sections: Section[] };

/** The sections of a recipe: its own fields first (without a name), then one for each part; stages are apart. */
export function sectionsOf(schema: Schema): Section[] {
  const whole = sectionOf(schema, schema, "", text(schema.description));
  return [{ ...whole, description: "", sections: [] }, ...whole.sections];
}

/** By kind, what a stage of it may say. */
export function stageSections(schema: Schema): Record<string, Section> {
  const stages = record(record(schema.properties).stages);
  const mapping = record(record(record(stages.items).discriminator).mapping);
  return Object.fromEntries(
    Object.entries(mapping).map(([kind, reference]) => {
      const found = resolved(schema, { $ref: reference });
      return [kind, sectionOf(schema, found, kind, text(record(record(found.properties).kind).description))];
    }),
  );
}

function sectionOf(root: Schema, schema: Schema, name: string, description: string): Section {
  const section: Section = { name, description, fields: [], sections: [] };
  const required = list(schema.required);
  for (const [key, raw] of Object.entries(record(schema.properties))) {
    const property = resolved(root, record(raw));
    const about = text(record(raw).description) || text(property.description);
    if ("properties" in property) section.sections.push(sectionOf(root, property, key, about));
    else {
      const field = fieldOf(property, { name: key, description: about, unit: text(property.unit), fallback: property.default, isRequired: required.includes(key) });
      if (field !== null) section.fields.push(field);
    }
  }
  return section;
}

/** Null for what a person does not fill in: constants, and what has its own part of the form. */
function fieldOf(property: Schema, common: Common): Field | null {
  const type = list(property.anyOf).map(record).find((one) => one.type !== "null") ?? property;
  if ("const" in type) return null;
  if (Array.isArray(type.enum)) return { ...common, kind: "choice", choices: type.enum.map(String) };
  switch (type.type) {
    case "string":
      return { ...common, kind: "text" };
    case "boolean":
      return { ...common, kind: "flag" };
    case "integer":
    case "number":
      return {
        ...common, kind: "number", isInteger: type.type === "integer", min: bound(type.minimum ?? type.exclusiveMinimum),
        max: bound(type.maximum ?? type.exclusiveMaximum),
      };
    case "array":
      if (Array.isArray(type.prefixItems)) return { ...common, kind: "numbers", count: type.prefixItems.length };
      return record(type.items).type === "string" ? { ...common, kind: "lines" } : null;
    case "object":
      return { ...common, kind: "words" };
    default:
      return null;
  }
}

function resolved(root: Schema, schema: Schema): Schema {
  const name = text(schema.$ref).replace("#/$defs/", "");
  return name === "" ? schema : record(record(root.$defs)[name]);
}

function record(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function bound(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** What is at a path of a parsed recipe. */
export function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>((found, key) => (typeof found === "object" && found !== null ? (found as Record<string | number, unknown>)[key] : undefined), value);
}

/** A field as typed: `undefined` is the default, `null` is no value that the field can have. */
export function parseField(field: Field, typed: string): { value: unknown } | null {
  const trimmed = typed.trim();
  if (trimmed === "") return { value: undefined };
  switch (field.kind) {
    case "number": {
      const number = Number(trimmed.replaceAll("_", ""));
      return Number.isFinite(number) && (!field.isInteger || Number.isInteger(number)) ? { value: number } : null;
    }
    case "numbers": {
      const numbers = trimmed.split(/[\s,]+/).map(Number);
      return numbers.length === field.count && numbers.every(Number.isFinite) ? { value: numbers } : null;
    }
    case "flag":
      return { value: trimmed === "true" };
    case "lines":
      return { value: trimmed.split("\n").map((line) => line.trim()).filter((line) => line !== "") };
    case "words": {
      const pairs = trimmed.split("\n").map((line) => /^([^:]+):\s*(\S.*)$/.exec(line.trim()));
      return pairs.every((pair) => pair !== null) ? { value: Object.fromEntries(pairs.map((pair) => [pair[1]?.trim() ?? "", pair[2]?.trim() ?? ""])) } : null;
    }
    case "text":
    case "choice":
      return { value: typed };
  }
}

/** A value as a person types it. */
export function formatField(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.every((item) => typeof item === "number") ? value.join(", ") : value.map(String).join("\n");
  if (typeof value === "object") return Object.entries(value).map(([key, word]) => `${key}: ${String(word)}`).join("\n");
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What counts where a field is empty. */
export function defaultOf(field: Field): string {
  if (field.isRequired) return "required";
  const shown = formatField(field.fallback);
  return shown === "" ? "none" : `default ${shown.replaceAll("\n", ", ")}`;
}

/** Every value of a resolved recipe by its path, for a table. */
export function leavesOf(value: unknown, path = ""): { path: string; value: string }[] {
  if (Array.isArray(value) && value.some((item) => typeof item === "object")) return value.flatMap((item, index) => leavesOf(item, `${path}/${index}`));
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, item]) => leavesOf(item, path === "" ? key : `${path}/${key}`));
  }
  return [{ path, value: formatField(value) || "–" }];
}
