import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function ComparePage() {
  return (
    <Page title="Compare runs">
      <EmptyState title="Compare runs">This page is being built.</EmptyState>
    </Page>
  );
}
