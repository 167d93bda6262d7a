import { EmptyState } from "../../components/EmptyState";

export function ChartsTab() {
  return <EmptyState title="Charts">This page is being built.</EmptyState>;
}
