import { EmptyState } from "../../components/EmptyState";

export function GroupPage() {
  return <EmptyState title="Group">This page is being built.</EmptyState>;
}
