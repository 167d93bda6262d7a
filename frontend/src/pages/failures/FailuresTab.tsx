import { getRouteApi } from "@tanstack/react-router";

import { FailureList } from "./FailureList";

const route = getRouteApi("/shell/runs/$run/failures");

export function FailuresTab() {
  const { run } = route.useParams();
  const search = route.useSearch();
  return <FailureList filter={{ run, ...search }} />;
}
