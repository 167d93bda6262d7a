import { getRouteApi } from "@tanstack/react-router";

import { EngineList } from "./EngineList";

const route = getRouteApi("/shell/runs/$run/engines");

export function EnginesTab() {
  const { run } = route.useParams();
  return <EngineList run={run} />;
}
