import { useDeferredValue, useMemo } from "react";

/** The filter that the rows on screen are of: the old ones stay until those of the new one are here, so no page flashes at a choice. */
export function useDeferredFilter<Filter extends object>(filter: Filter): Filter {
  const text = useDeferredValue(JSON.stringify(filter));
  return useMemo(() => JSON.parse(text) as Filter, [text]); // it is what was put in, but for keys that are undefined
}
