import type { UseQueryResult } from "@tanstack/react-query";

import { ErrorState } from "../../components/ErrorState";

/** A part that could not be loaded; the others stand. */
export function Fault({ query }: { query: UseQueryResult }) {
  return (
    <ErrorState
      error={query.error}
      onRetry={() => {
        query.refetch().catch(() => undefined);
      }}
    />
  );
}
