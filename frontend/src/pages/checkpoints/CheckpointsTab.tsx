import { EmptyState } from "../../components/EmptyState";

export function CheckpointsTab() {
  return <EmptyState title="Checkpoints">This page is being built.</EmptyState>;
}
