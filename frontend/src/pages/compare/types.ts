import type { RunDetail } from "../../api/types";

/** A run with the hue and the shape that stand for it on the whole page. */
export type Compared = { run: RunDetail; color: string; marker: string };

/** Names repeat, as of clones; with the number they do not. */
export function nameOf({ run }: Compared): string {
  return `${run.name} · ${run.id}`;
}
