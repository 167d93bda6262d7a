import { useEffect, useRef } from "react";

import { addLayer, type Keys, type Scope } from "./keys";

/** Single keys while the component is shown, not while a person types (lib/keys.ts). A key of its own needs a label for the help. */
export function useKeys(keys: Keys, scope: Scope = "This page"): void {
  const current = useRef(keys);
  useEffect(() => {
    current.current = keys;
  });
  useEffect(() => addLayer({ scope, keys: () => current.current }), [scope]);
}
