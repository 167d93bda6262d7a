import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, notFound, Outlet, redirect, type RouterHistory, useRouter,
} from "@tanstack/react-router";

import { meQuery } from "./api/me";
import { Problem } from "./api/problem";
import { EmptyState } from "./components/EmptyState";
import { ErrorState } from "./components/ErrorState";
import { Loading } from "./components/Loading";
import { Shell } from "./components/Shell";
import { choiceParam, countParam, textParams } from "./lib/search";

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({ component: Outlet });

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["next"]),
  component: lazyRouteComponent(() => import("./pages/login/LoginPage"), "LoginPage"),
});

/** Everything behind it needs a session. */
const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.query({ ...meQuery(), staleTime: "static" });
    } catch (error) {
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) {
        throw redirect({ to: "/login", search: { next: location.href } });
      }
      throw error;
    }
  },
  component: Shell,
});

const index = createRoute({
  getParentRoute: () => shell,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/runs", replace: true });
  },
});

const runs = createRoute({
  getParentRoute: () => shell,
  path: "/runs",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["status"]),
  component: lazyRouteComponent(() => import("./pages/runs/RunsPage"), "RunsPage"),
});

const newRun = createRoute({
  getParentRoute: () => shell,
  path: "/runs/new",
  validateSearch: newRunSearch,
  component: lazyRouteComponent(() => import("./pages/runs/NewRunPage"), "NewRunPage"),
});

const run = createRoute({
  getParentRoute: () => shell,
  path: "/runs/$run",
  params: {
    parse: ({ run }) => ({ run: idParam(run) }),
    stringify: ({ run }) => ({ run: String(run) }),
  },
  component: lazyRouteComponent(() => import("./pages/runs/RunPage"), "RunPage"),
});

const runIndex = createRoute({
  getParentRoute: () => run,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/runs/$run/overview", params, replace: true });
  },
});

const overview = createRoute({
  getParentRoute: () => run,
  path: "overview",
  component: lazyRouteComponent(() => import("./pages/runs/OverviewTab"), "OverviewTab"),
});

const trajectories = createRoute({
  getParentRoute: () => run,
  path: "trajectories",
  validateSearch: trajectorySearch,
  component: lazyRouteComponent(() => import("./pages/trajectories/TrajectoriesTab"), "TrajectoriesTab"),
});

const groups = createRoute({
  getParentRoute: () => run,
  path: "groups",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["stage", "status"]),
  component: lazyRouteComponent(() => import("./pages/runs/GroupsTab"), "GroupsTab"),
});

const runSandboxes = createRoute({
  getParentRoute: () => run,
  path: "sandboxes",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["status", "driver"]),
  component: lazyRouteComponent(() => import("./pages/sandboxes/SandboxesTab"), "SandboxesTab"),
});

const runFailures = createRoute({
  getParentRoute: () => run,
  path: "failures",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["stage", "kind"]),
  component: lazyRouteComponent(() => import("./pages/failures/FailuresTab"), "FailuresTab"),
});

const runEngines = createRoute({
  getParentRoute: () => run,
  path: "engines",
  component: lazyRouteComponent(() => import("./pages/engines/EnginesTab"), "EnginesTab"),
});

const evals = createRoute({
  getParentRoute: () => run,
  path: "evals",
  component: lazyRouteComponent(() => import("./pages/runs/EvalsTab"), "EvalsTab"),
});

const events = createRoute({
  getParentRoute: () => run,
  path: "events",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["level"]),
  component: lazyRouteComponent(() => import("./pages/runs/EventsTab"), "EventsTab"),
});

const config = createRoute({
  getParentRoute: () => run,
  path: "config",
  component: lazyRouteComponent(() => import("./pages/runs/ConfigTab"), "ConfigTab"),
});

export const INSPECTOR_TABS = ["transcript", "tests", "timeline", "raw"] as const;

const trajectory = createRoute({
  getParentRoute: () => shell,
  path: "/trajectories/$trajectory",
  params: {
    parse: ({ trajectory }) => ({ trajectory: idParam(trajectory) }),
    stringify: ({ trajectory }) => ({ trajectory: String(trajectory) }),
  },
  validateSearch: (raw: Record<string, unknown>) => ({
    ...trajectorySearch(raw),
    ...optional("tab", choiceParam(raw, "tab", INSPECTOR_TABS)),
    ...optional("turn", countParam(raw, "turn")),
    ...optional("attempt", countParam(raw, "attempt")),
  }),
  component: lazyRouteComponent(() => import("./pages/trajectories/TrajectoryPage"), "TrajectoryPage"),
});

const sandboxes = createRoute({
  getParentRoute: () => shell,
  path: "/sandboxes",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["status", "driver"]),
  component: lazyRouteComponent(() => import("./pages/sandboxes/SandboxesPage"), "SandboxesPage"),
});

const failures = createRoute({
  getParentRoute: () => shell,
  path: "/failures",
  validateSearch: (raw: Record<string, unknown>) => textParams(raw, ["stage", "kind"]),
  component: lazyRouteComponent(() => import("./pages/failures/FailuresPage"), "FailuresPage"),
});

const failureGroup = createRoute({
  getParentRoute: () => shell,
  path: "/failures/$group",
  params: {
    parse: ({ group }) => ({ group: idParam(group) }),
    stringify: ({ group }) => ({ group: String(group) }),
  },
  validateSearch: (raw: Record<string, unknown>) => optional("run", countParam(raw, "run")),
  component: lazyRouteComponent(() => import("./pages/failures/FailureGroupPage"), "FailureGroupPage"),
});

const engines = createRoute({
  getParentRoute: () => shell,
  path: "/engines",
  component: lazyRouteComponent(() => import("./pages/engines/EnginesPage"), "EnginesPage"),
});

const workers = createRoute({
  getParentRoute: () => shell,
  path: "/workers",
  component: lazyRouteComponent(() => import("./pages/workers/WorkersPage"), "WorkersPage"),
});

const routeTree = root.addChildren([
  login,
  shell.addChildren([
    index, runs, newRun,
    run.addChildren([
      runIndex, overview, trajectories, groups, runSandboxes, runFailures, runEngines, evals, events, config,
    ]),
    trajectory, sandboxes, failures, failureGroup, engines, workers,
  ]),
]);

export function createAppRouter(queryClient: QueryClient, history?: RouterHistory) {
  return createRouter({
    routeTree,
    ...(history === undefined ? {} : { history }),
    context: { queryClient },
    search: { strict: true },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultPendingMs: 150,
    scrollRestoration: true,
    defaultPendingComponent: () => <Loading />,
    defaultErrorComponent: RouteError,
    defaultNotFoundComponent: () => (
      <EmptyState title="There is no such page.">The address may be old, or what it named is gone.</EmptyState>
    ),
  });
}

function RouteError({ error, reset }: { error: unknown; reset: () => void }) {
  const router = useRouter();
  const retry = () => {
    router.options.context.queryClient.resetQueries({ predicate: (query) => query.state.status === "error" }).catch(() => undefined);
    reset();
    router.invalidate().catch(() => undefined);
  };
  return <ErrorState error={error} onRetry={retry} />;
}

/** Filters of the trajectory list; the inspector carries them, so that J and K walk the same list. */
function trajectorySearch(raw: Record<string, unknown>) {
  return {
    ...textParams(raw, ["stage", "status", "reward", "stop_reason", "task"]),
    ...optional("group", countParam(raw, "group")),
  };
}

function newRunSearch(raw: Record<string, unknown>): { recipe?: string; from_run?: number } {
  return { ...textParams(raw, ["recipe"]), ...optional("from_run", countParam(raw, "from_run")) };
}

function optional<Key extends string, Value>(key: Key, value: Value | undefined): Partial<Record<Key, Value>> {
  // The computed key of a one-entry object is typed as string; it is Key.
  return value === undefined ? {} : ({ [key]: value } as Record<Key, Value>);
}

function idParam(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw notFound();
  return Number(text);
}

declare module "@tanstack/react-router" {
  // An interface, because declarations are merged into the library's.
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
