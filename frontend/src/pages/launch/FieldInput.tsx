import { Select, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";

import { defaultOf, type Field, formatField, parseField } from "./recipeSchema";

type Props = { className?: string | undefined; field: Field; id: string; value: unknown; error?: string | undefined; onChange: (value: unknown) => void };

/** One field of a recipe. Empty is the default; what cannot be a value of it stays on screen and changes nothing. */
export function FieldInput({ className, field, id, value, error, onChange }: Props) {
  const [typed, setTyped] = useState<string | null>(null);
  const shown = typed ?? formatField(value);
  const isWrong = typed !== null && parseField(field, typed) === null;
  const type = (text: string) => {
    setTyped(text);
    const parsed = parseField(field, text);
    if (parsed?.value !== undefined) onChange(parsed.value);
  };
  // A field that is emptied on the way to another value keeps its line until the reader leaves it.
  const leave = () => {
    if (typed?.trim() === "" && value !== undefined) onChange(undefined);
    setTyped(null);
  };
  const shared = {
    id,
    ...(className === undefined ? {} : { className }),
    label: field.unit === "" ? field.name : `${field.name} (${field.unit})`,
    description: field.description,
    placeholder: defaultOf(field),
    error: isWrong ? expectation(field) : error,
    onBlur: leave,
  };
  if (field.kind === "choice" || field.kind === "flag") {
    return (
      <Select
        {...shared} clearable={!field.isRequired} data={field.kind === "flag" ? ["true", "false"] : field.choices} value={shown === "" ? null : shown}
        onChange={(choice) => onChange(choice === null ? undefined : parseField(field, choice)?.value)}
      />
    );
  }
  if (isLong(field)) {
    return <Textarea {...shared} autosize minRows={1} maxRows={6} value={shown} onChange={(event) => type(event.currentTarget.value)} />;
  }
  const inputMode = field.kind === "number" ? "decimal" : undefined;
  return <TextInput {...shared} {...(inputMode === undefined ? {} : { inputMode })} value={shown} onChange={(event) => type(event.currentTarget.value)} />;
}

/** Fields that are read line by line. */
export function isLong(field: Field): boolean {
  return field.kind === "lines" || field.kind === "words" || field.name === "description" || field.name === "system";
}

function expectation(field: Field): string {
  switch (field.kind) {
    case "number":
      return field.isInteger ? "A whole number" : "A number";
    case "numbers":
      return `${field.count} numbers with a comma between`;
    case "words":
      return "A line each: name: task set";
    default:
      return "Not a value";
  }
}
