import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function TaskSetsPage() {
  return (
    <Page title="Task sets">
      <EmptyState title="Task sets">This page is being built.</EmptyState>
    </Page>
  );
}
