import { useState } from "react";

import { formatBytes, visibleText } from "../lib/format";
import classes from "./CodeBlock.module.css";
import { CopyButton } from "./CopyButton";

/** Text beyond this many characters is folded; the button says how much there is. */
const FOLD_CHARS = 8_000;
const FOLD_LINES = 60;

/** Text that a model or a sandbox wrote: shown as text, with hidden characters made visible. */
export function CodeBlock({ text, label, isWrapped = true }: { text: string; label: string; isWrapped?: boolean }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : fold(text);
  const isFolded = shown.length < text.length;
  return (
    <div className={classes.block}>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, so the keyboard must reach it */}
      <pre className={classes.text} data-wrapped={isWrapped} role="region" aria-label={label} tabIndex={0}>
        {visibleText(shown)}
      </pre>
      <div className={classes.actions}>
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      {(isFolded || (isWhole && fold(text).length < text.length)) && (
        <button type="button" className={classes.fold} onClick={() => setWhole(!isWhole)}>
          {isFolded ? `Show all ${formatBytes(text.length)}` : "Fold"}
        </button>
      )}
    </div>
  );
}

function fold(text: string): string {
  let end = -1;
  for (let line = 0; line < FOLD_LINES; line += 1) {
    const next = text.indexOf("\n", end + 1);
    if (next === -1) return text.length > FOLD_CHARS ? text.slice(0, FOLD_CHARS) : text;
    end = next;
  }
  const cut = Math.min(end, FOLD_CHARS);
  // A fold that hides almost nothing is only a click.
  return text.length - cut < 200 ? text : text.slice(0, cut);
}
