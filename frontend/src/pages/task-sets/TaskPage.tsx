import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function TaskPage() {
  return (
    <Page title="Task">
      <EmptyState title="Task">This page is being built.</EmptyState>
    </Page>
  );
}
