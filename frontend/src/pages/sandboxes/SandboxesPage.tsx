import { getRouteApi } from "@tanstack/react-router";

import { Page } from "../../components/Page";
import { SandboxList } from "./SandboxList";

const route = getRouteApi("/shell/sandboxes");

export function SandboxesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Page title="Sandboxes">
      <SandboxList
        filter={search}
        onFilter={(status) => {
          navigate({ search: (old) => ({ ...old, status }) }).catch(() => undefined);
        }}
      />
    </Page>
  );
}
