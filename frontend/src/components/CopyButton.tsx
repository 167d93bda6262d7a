import { useCopy } from "../lib/useCopy";
import classes from "./CopyButton.module.css";

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, copy] = useCopy();
  return (
    <button type="button" className={classes.button} onClick={() => copy(text)} aria-label={label}>
      {state === "copied" ? "Copied" : state === "failed" ? "Select it" : "Copy"}
    </button>
  );
}
