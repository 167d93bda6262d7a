import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, notFound, Outlet, redirect, type RouterHistory, useRouter,
} from "@tanstack/react-router";

import { meQuery } from "./api/me";
import { Problem } from "./api/problem";
import { ErrorState } from "./components/ErrorState";
import { Loading } from "./components/Loading";
import { NotFound } from "./components/NotFound";
import { Shell } from "./components/Shell";
import { chosenProject } from "./lib/preferences";
import { textParams } from "./lib/search";
import { chartsSearch } from "./pages/charts/search";
import { compareSearch } from "./pages/compare/search";
import { compareEvalsSearch } from "./pages/evals/search";
import { failureSearch, failuresSearch } from "./pages/failures/search";
import { groupSearch, groupsSearch } from "./pages/groups/search";
import { inspectorSearch } from "./pages/inspector/search";
import { launchSearch } from "./pages/launch/search";
import { eventsSearch, overviewSearch, stepsSearch } from "./pages/overview/search";
import { runsSearch } from "./pages/runs/search";
import { sandboxesSearch, sandboxSearch } from "./pages/sandboxes/search";
import { tailSearch } from "./pages/tail/search";
import { tasksSearch } from "./pages/task-sets/search";
import { trajectoriesSearch } from "./pages/trajectories/search";

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
  validateSearch: runsSearch,
  component: lazyRouteComponent(() => import("./pages/runs/RunsPage"), "RunsPage"),
});

const newRun = createRoute({
  getParentRoute: () => shell,
  path: "/runs/new",
  validateSearch: launchSearch,
  component: lazyRouteComponent(() => import("./pages/launch/NewRunPage"), "NewRunPage"),
});

const compareRuns = createRoute({
  getParentRoute: () => shell,
  path: "/runs/compare",
  validateSearch: compareSearch,
  component: lazyRouteComponent(() => import("./pages/compare/ComparePage"), "ComparePage"),
});

const run = createRoute({
  getParentRoute: () => shell,
  path: "/runs/$run",
  params: idParams("run"),
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
  validateSearch: overviewSearch,
  component: lazyRouteComponent(() => import("./pages/overview/OverviewTab"), "OverviewTab"),
});

const charts = createRoute({
  getParentRoute: () => run,
  path: "charts",
  validateSearch: chartsSearch,
  component: lazyRouteComponent(() => import("./pages/charts/ChartsTab"), "ChartsTab"),
});

const steps = createRoute({
  getParentRoute: () => run,
  path: "steps",
  validateSearch: stepsSearch,
  component: lazyRouteComponent(() => import("./pages/overview/StepsTab"), "StepsTab"),
});

const tail = createRoute({
  getParentRoute: () => run,
  path: "tail",
  validateSearch: tailSearch,
  component: lazyRouteComponent(() => import("./pages/tail/TailTab"), "TailTab"),
});

const trajectories = createRoute({
  getParentRoute: () => run,
  path: "trajectories",
  validateSearch: trajectoriesSearch,
  component: lazyRouteComponent(() => import("./pages/trajectories/TrajectoriesTab"), "TrajectoriesTab"),
});

const groups = createRoute({
  getParentRoute: () => run,
  path: "groups",
  validateSearch: groupsSearch,
  component: lazyRouteComponent(() => import("./pages/groups/GroupsTab"), "GroupsTab"),
});

const group = createRoute({
  getParentRoute: () => run,
  path: "groups/$group",
  params: idParams("group"),
  validateSearch: groupSearch,
  component: lazyRouteComponent(() => import("./pages/groups/GroupPage"), "GroupPage"),
});

const runSandboxes = createRoute({
  getParentRoute: () => run,
  path: "sandboxes",
  validateSearch: sandboxesSearch,
  component: lazyRouteComponent(() => import("./pages/sandboxes/SandboxesTab"), "SandboxesTab"),
});

const runFailures = createRoute({
  getParentRoute: () => run,
  path: "failures",
  validateSearch: failuresSearch,
  component: lazyRouteComponent(() => import("./pages/failures/FailuresTab"), "FailuresTab"),
});

const runEngines = createRoute({
  getParentRoute: () => run,
  path: "engines",
  component: lazyRouteComponent(() => import("./pages/engines/EnginesTab"), "EnginesTab"),
});

const checkpoints = createRoute({
  getParentRoute: () => run,
  path: "checkpoints",
  component: lazyRouteComponent(() => import("./pages/checkpoints/CheckpointsTab"), "CheckpointsTab"),
});

const evals = createRoute({
  getParentRoute: () => run,
  path: "evals",
  component: lazyRouteComponent(() => import("./pages/evals/EvalsTab"), "EvalsTab"),
});

const events = createRoute({
  getParentRoute: () => run,
  path: "events",
  validateSearch: eventsSearch,
  component: lazyRouteComponent(() => import("./pages/overview/EventsTab"), "EventsTab"),
});

const config = createRoute({
  getParentRoute: () => run,
  path: "config",
  component: lazyRouteComponent(() => import("./pages/launch/ConfigTab"), "ConfigTab"),
});

const trajectory = createRoute({
  getParentRoute: () => shell,
  path: "/trajectories/$trajectory",
  params: idParams("trajectory"),
  validateSearch: inspectorSearch,
  component: lazyRouteComponent(() => import("./pages/inspector/TrajectoryPage"), "TrajectoryPage"),
});

const sandboxes = createRoute({
  getParentRoute: () => shell,
  path: "/sandboxes",
  validateSearch: sandboxesSearch,
  component: lazyRouteComponent(() => import("./pages/sandboxes/SandboxesPage"), "SandboxesPage"),
});

const sandbox = createRoute({
  getParentRoute: () => shell,
  path: "/sandboxes/$sandbox",
  params: idParams("sandbox"),
  validateSearch: sandboxSearch,
  component: lazyRouteComponent(() => import("./pages/sandboxes/SandboxPage"), "SandboxPage"),
});

const failures = createRoute({
  getParentRoute: () => shell,
  path: "/failures",
  validateSearch: failuresSearch,
  component: lazyRouteComponent(() => import("./pages/failures/FailuresPage"), "FailuresPage"),
});

const failureGroup = createRoute({
  getParentRoute: () => shell,
  path: "/failures/$group",
  params: idParams("group"),
  validateSearch: failureSearch,
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

const limits = createRoute({
  getParentRoute: () => shell,
  path: "/limits",
  component: lazyRouteComponent(() => import("./pages/limits/LimitsPage"), "LimitsPage"),
});

const taskSets = createRoute({
  getParentRoute: () => shell,
  path: "/task-sets",
  component: lazyRouteComponent(() => import("./pages/task-sets/TaskSetsPage"), "TaskSetsPage"),
});

const taskSet = createRoute({
  getParentRoute: () => shell,
  path: "/task-sets/$set",
  params: idParams("set"),
  validateSearch: tasksSearch,
  component: lazyRouteComponent(() => import("./pages/task-sets/TaskSetPage"), "TaskSetPage"),
});

const task = createRoute({
  getParentRoute: () => shell,
  path: "/task-sets/$set/tasks/$task",
  params: {
    parse: ({ set, task }) => ({ set: idParam(set), task: idParam(task) }),
    stringify: ({ set, task }) => ({ set: String(set), task: String(task) }),
  },
  component: lazyRouteComponent(() => import("./pages/task-sets/TaskPage"), "TaskPage"),
});

const compareEvals = createRoute({
  getParentRoute: () => shell,
  path: "/evals/compare",
  validateSearch: compareEvalsSearch,
  component: lazyRouteComponent(() => import("./pages/evals/CompareEvalsPage"), "CompareEvalsPage"),
});

/** Any other address, so that it is told inside the shell. */
const unknown = createRoute({ getParentRoute: () => shell, path: "/$", component: NotFound });

const routeTree = root.addChildren([
  login,
  shell.addChildren([
    index, runs, newRun, compareRuns,
    run.addChildren([
      runIndex, overview, charts, steps, tail, trajectories, groups, group, runSandboxes, runFailures, runEngines, checkpoints, evals,
      events, config,
    ]),
    trajectory, sandboxes, sandbox, failures, failureGroup, engines, workers, limits, taskSets, taskSet, task, compareEvals, unknown,
  ]),
]);

export function createAppRouter(queryClient: QueryClient, history?: RouterHistory) {
  return createRouter({
    routeTree,
    ...(history === undefined ? {} : { history }),
    context: { queryClient },
    rewrite: projectInQuery,
    search: { strict: true },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultPendingMs: 150,
    scrollRestoration: true,
    defaultPendingComponent: () => <Loading />,
    defaultErrorComponent: RouteError,
    defaultNotFoundComponent: NotFound,
  });
}

/** `?project=` is of every page, so no page has to know it: it is taken off on the way in and put back on the way out. */
const projectInQuery = {
  input: ({ url }: { url: URL }) => {
    const project = url.searchParams.get("project");
    if (project !== null && project !== chosenProject.get()) chosenProject.set(project);
    url.searchParams.delete("project");
    return url;
  },
  output: ({ url }: { url: URL }) => {
    const project = chosenProject.get();
    if (project !== undefined && url.pathname !== "/login") url.searchParams.set("project", project);
    return url;
  },
};

function RouteError({ error, reset }: { error: unknown; reset: () => void }) {
  const router = useRouter();
  const retry = () => {
    router.options.context.queryClient.resetQueries({ predicate: (query) => query.state.status === "error" }).catch(() => undefined);
    reset();
    router.invalidate().catch(() => undefined);
  };
  return <ErrorState error={error} onRetry={retry} />;
}

function idParams<Name extends string>(name: Name) {
  return {
    parse: (raw: Record<Name, string>) => ({ [name]: idParam(raw[name]) }) as Record<Name, number>,
    stringify: (params: Record<Name, number>) => ({ [name]: String(params[name]) }) as Record<Name, string>,
  };
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
