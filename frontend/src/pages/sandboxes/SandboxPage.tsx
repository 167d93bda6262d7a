import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function SandboxPage() {
  return (
    <Page title="Sandbox">
      <EmptyState title="Sandbox">This page is being built.</EmptyState>
    </Page>
  );
}
