import { EmptyState } from "../../components/EmptyState";

export function TailTab() {
  return <EmptyState title="Long tail">This page is being built.</EmptyState>;
}
