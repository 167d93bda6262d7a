/** What a person has typed into a launch, kept over a reload; each origin has a draft of its own. */

export type Draft = {
  source: string;
  name: string;
  /** Made when the form opens, and anew with each edit: the same text sent twice is one run. */
  key: string;
};

export type Origin = { recipe?: string | undefined; fromRun?: number | undefined; fromCheckpoint?: number | undefined };

export function draftName({ recipe, fromRun, fromCheckpoint }: Origin): string {
  return `longtail.launch:${fromRun ?? recipe ?? ""}:${fromCheckpoint ?? ""}`;
}

export function readDraft(name: string): Draft | null {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(name) ?? "null");
    return isDraft(found) ? found : null;
  } catch {
    return null; // storage may be off, or hold what an older version wrote
  }
}

export function keepDraft(name: string, draft: Draft | null): void {
  try {
    if (draft === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(draft));
  } catch {
    // without storage a draft lives as long as its page
  }
}

function isDraft(found: unknown): found is Draft {
  return (
    typeof found === "object" && found !== null && "source" in found && typeof found.source === "string" && "name" in found &&
    typeof found.name === "string" && "key" in found && typeof found.key === "string"
  );
}

/** "miniature" → "miniature-2", "miniature-2" → "miniature-3". */
export function nextName(name: string): string {
  const numbered = /^(.*)-(\d{1,6})$/.exec(name);
  return numbered === null ? `${name}-2` : `${numbered[1] ?? ""}-${Number(numbered[2]) + 1}`;
}
