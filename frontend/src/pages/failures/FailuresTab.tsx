import { getRouteApi } from "@tanstack/react-router";

import { FailureGroups } from "./FailureGroups";

const route = getRouteApi("/shell/runs/$run/failures");

export function FailuresTab() {
  const { run } = route.useParams();
  const search = route.useSearch();
  return <FailureGroups filter={{ run, ...search }} />;
}
