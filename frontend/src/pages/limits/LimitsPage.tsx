import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function LimitsPage() {
  return (
    <Page title="Limits">
      <EmptyState title="Limits">This page is being built.</EmptyState>
    </Page>
  );
}
