import { Link } from "@tanstack/react-router";

import { EmptyState } from "./EmptyState";

export function NotFound() {
  return (
    <EmptyState title="There is no such page.">
      The address may be old, or what it named is gone. <Link to="/runs">All runs</Link>, or press Ctrl K to find something by its name or
      number.
    </EmptyState>
  );
}
