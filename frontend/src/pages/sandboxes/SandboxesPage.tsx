import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { sandboxFleetQuery } from "../../api/fleet";
import { Page } from "../../components/Page";
import { useFleet } from "../../live/useFleet";
import { SandboxFleet } from "./SandboxFleet";
import { SandboxList } from "./SandboxList";
import classes from "./Sandboxes.module.css";

const route = getRouteApi("/shell/sandboxes");

export function SandboxesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: fleet } = useSuspenseQuery(sandboxFleetQuery(search.run));
  useFleet();
  return (
    <Page title="Sandboxes" lead={search.run === undefined ? undefined : `Of run ${search.run} only.`}>
      <div className={classes.page}>
        <SandboxFleet {...(search.run === undefined ? {} : { run: search.run })} />
        <SandboxList
          filter={search}
          drivers={[...new Set(fleet.starts.map((start) => start.driver))]}
          onFilter={(change) => {
            navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
          }}
        />
      </div>
    </Page>
  );
}
