import { useEffect, useState } from "react";

import classes from "./CopyButton.module.css";

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 1500);
    return () => clearTimeout(timer);
  }, [state]);

  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setState("copied"),
      () => setState("failed"), // refused by the browser: the text is there to be selected
    );
  };
  return (
    <button type="button" className={classes.button} onClick={copy} aria-label={label}>
      {state === "copied" ? "Copied" : state === "failed" ? "Select it" : "Copy"}
    </button>
  );
}
