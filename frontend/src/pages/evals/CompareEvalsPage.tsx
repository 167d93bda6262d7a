import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function CompareEvalsPage() {
  return (
    <Page title="Compare evaluations">
      <EmptyState title="Compare evaluations">This page is being built.</EmptyState>
    </Page>
  );
}
