import { getRouteApi } from "@tanstack/react-router";

import { FailureGroups } from "./FailureGroups";

const route = getRouteApi("/shell/runs/$run/failures");

export function FailuresTab() {
  const { run } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <FailureGroups
      filter={{ run, ...search }}
      onFilter={(change) => {
        navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
      }}
    />
  );
}
