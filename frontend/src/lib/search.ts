/** Search params are state. What is unknown or malformed is ignored, never a crash. */

type Raw = Record<string, unknown>;

/** `{status}` out of `?status=open`; absent keys stay absent, so addresses stay short. */
export function textParams<Key extends string>(raw: Raw, keys: readonly Key[]): Partial<Record<Key, string>> {
  const params: Partial<Record<Key, string>> = {};
  for (const key of keys) {
    const value = raw[key];
    // TanStack Router parses ?a=12 as a number
    if (typeof value === "string" && value !== "") params[key] = value;
    else if (typeof value === "number" || typeof value === "boolean") params[key] = String(value);
  }
  return params;
}

export function countParam(raw: Raw, key: string): number | undefined {
  const value = Number(raw[key]);
  return raw[key] !== "" && raw[key] !== null && Number.isInteger(value) && value >= 0 ? value : undefined;
}

export function choiceParam<Choice extends string>(raw: Raw, key: string, choices: readonly Choice[]): Choice | undefined {
  return choices.find((choice) => choice === raw[key]);
}

/** Only a path of this site: an address of another one would be an open redirect. */
export function localPath(value: string | undefined): string {
  return value !== undefined && /^\/(?![/\\])/.test(value) ? value : "/runs";
}

/** `{[key]: value}`, or nothing: absent keys stay absent. */
export function optional<Key extends string, Value>(key: Key, value: Value | undefined): Partial<Record<Key, Value>> {
  // The computed key of a one-entry object is typed as string; it is Key.
  return value === undefined ? {} : ({ [key]: value } as Record<Key, Value>);
}
