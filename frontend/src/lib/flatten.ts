/** A recipe as rows: one path and one text a value. */

export type Flat = ReadonlyMap<string, string>;

/** Objects open into their fields, lists of named things (stages) by name; other lists stay one value. */
export function flatten(value: unknown, path = "", into = new Map<string, string>()): Map<string, string> {
  if (Array.isArray(value) && value.length > 0 && value.every(isNamed)) {
    for (const item of value) flatten(item, join(path, item.name), into);
  } else if (isObject(value)) {
    for (const [key, inner] of Object.entries(value)) flatten(inner, join(path, key), into);
  } else {
    into.set(path, textOf(value));
  }
  return into;
}

/** The paths of all, in the order they first appear, with each one's text; null where one has no such path. */
export function rowsOf(flats: readonly Flat[]): { path: string; values: (string | null)[]; isDifferent: boolean }[] {
  const paths = [...new Set(flats.flatMap((flat) => [...flat.keys()]))];
  return paths.map((path) => {
    const values = flats.map((flat) => flat.get(path) ?? null);
    return { path, values, isDifferent: values.some((value) => value !== values[0]) };
  });
}

function join(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNamed(value: unknown): value is { name: string } {
  return isObject(value) && typeof value.name === "string";
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
