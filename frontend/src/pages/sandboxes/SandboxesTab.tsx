import { getRouteApi } from "@tanstack/react-router";

import { SandboxList } from "./SandboxList";

const route = getRouteApi("/shell/runs/$run/sandboxes");

export function SandboxesTab() {
  const { run } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <SandboxList
      filter={{ run, ...search }}
      onFilter={(status) => {
        navigate({ search: (old) => ({ ...old, status }) }).catch(() => undefined);
      }}
    />
  );
}
