import { useEffect, useState } from "react";

export type CopyState = "idle" | "copied" | "failed";

/** Copies text and tells for a moment how that went. */
export function useCopy(): [CopyState, (text: string) => void] {
  const [state, setState] = useState<CopyState>("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 1500);
    return () => clearTimeout(timer);
  }, [state]);

  const copy = (text: string) => {
    // Without a secure origin there is no clipboard at all.
    const { clipboard } = navigator as { clipboard?: Clipboard };
    if (clipboard === undefined) {
      setState("failed");
      return;
    }
    clipboard.writeText(text).then(
      () => setState("copied"),
      () => setState("failed"), // refused by the browser
    );
  };
  return [state, copy];
}
