/** The commands that ask the server for what a page shows. */

/** The token is read from the environment, so that no secret gets into a chat or a shell's history. */
export function curlCommand(origin: string, path: string, query: Record<string, unknown> = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") params.set(key, String(value));
    else if (Array.isArray(value)) params.set(key, value.join(","));
  }
  params.forEach((value, key) => {
    if (value === "") params.delete(key);
  });
  const search = params.size === 0 ? "" : `?${params.toString()}`;
  return `curl -H "Authorization: Bearer $LONGTAIL_TOKEN" ${quoted(origin + path + search)}`;
}

/** A command of the client with the options that have a value. */
export function cliCommand(command: string, options: Record<string, string | number | undefined> = {}): string {
  const given = Object.entries(options).filter(([, value]) => value !== undefined && value !== "");
  return [`longtail ${command}`, ...given.map(([name, value]) => `--${name.replaceAll("_", "-")} ${quoted(String(value))}`)].join(" ");
}

/** One word of a POSIX shell, whatever it holds. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
