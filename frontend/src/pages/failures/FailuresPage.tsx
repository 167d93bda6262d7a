import { getRouteApi } from "@tanstack/react-router";

import { Page } from "../../components/Page";
import { FailureGroups } from "./FailureGroups";

const route = getRouteApi("/shell/failures");

export function FailuresPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Page title="Failures" lead="What the infrastructure did, grouped by fingerprint. What a policy did wrong is never here.">
      <FailureGroups
        filter={search}
        onFilter={(change) => {
          navigate({ search: (old) => ({ ...old, ...change }) }).catch(() => undefined);
        }}
      />
    </Page>
  );
}
