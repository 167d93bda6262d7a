import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { sandboxFleetQuery } from "../../api/fleet";
import { useFleet } from "../../live/useFleet";
import { SandboxFleet } from "./SandboxFleet";
import { SandboxList } from "./SandboxList";
import classes from "./Sandboxes.module.css";

const route = getRouteApi("/shell/runs/$run/sandboxes");

export function SandboxesTab() {
  const { run } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: fleet } = useSuspenseQuery(sandboxFleetQuery(run));
  useFleet();
  return (
    <div className={classes.page}>
      <SandboxFleet run={run} />
      <SandboxList
        filter={{ ...search, run }}
        drivers={[...new Set(fleet.starts.map((start) => start.driver))]}
        onFilter={(change) => {
          navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
        }}
      />
    </div>
  );
}
