import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";

export function TaskSetPage() {
  return (
    <Page title="Task set">
      <EmptyState title="Task set">This page is being built.</EmptyState>
    </Page>
  );
}
