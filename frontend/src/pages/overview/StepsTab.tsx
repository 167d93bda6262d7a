import { EmptyState } from "../../components/EmptyState";

export function StepsTab() {
  return <EmptyState title="Steps">This page is being built.</EmptyState>;
}
