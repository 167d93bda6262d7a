/** Where one can go: the sections of the dashboard and the tabs of a run. */
export const PLACES = [
  { section: "Work", to: "/runs", label: "Runs", keys: "g r" },
  { section: "Work", to: "/task-sets", label: "Task sets", keys: "g t" },
  { section: "Work", to: "/failures", label: "Failures", keys: "g f" },
  { section: "Fleet", to: "/sandboxes", label: "Sandboxes", keys: "g s" },
  { section: "Fleet", to: "/engines", label: "Engines", keys: "g e" },
  { section: "Fleet", to: "/workers", label: "Workers", keys: "g w" },
  { section: "Fleet", to: "/limits", label: "Limits", keys: "g l" },
] as const;

export const RUN_TABS = [
  { to: "/runs/$run/overview", label: "Overview" },
  { to: "/runs/$run/charts", label: "Charts" },
  { to: "/runs/$run/steps", label: "Steps" },
  { to: "/runs/$run/tail", label: "Long tail" },
  { to: "/runs/$run/trajectories", label: "Trajectories" },
  { to: "/runs/$run/groups", label: "Groups" },
  { to: "/runs/$run/sandboxes", label: "Sandboxes" },
  { to: "/runs/$run/failures", label: "Failures" },
  { to: "/runs/$run/engines", label: "Engines" },
  { to: "/runs/$run/checkpoints", label: "Checkpoints" },
  { to: "/runs/$run/evals", label: "Evaluations" },
  { to: "/runs/$run/events", label: "Events" },
  { to: "/runs/$run/config", label: "Recipe" },
] as const;
