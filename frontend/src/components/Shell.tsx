import { Burger, Drawer, Menu, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";

import { meQuery, projectOf, useLogout } from "../api/me";
import type { Project, Role } from "../api/types";
import { PLACES, RUN_TABS } from "../lib/places";
import { chosenProject, setZone, singleKeys, useZone } from "../lib/preferences";
import { useKeys } from "../lib/useKeys";
import { LiveProvider } from "../live/LiveProvider";
import { EmptyState } from "./EmptyState";
import { LivePill } from "./LivePill";
import classes from "./Shell.module.css";
import { useActiveRun } from "./useActiveRun";
import { useActions } from "./useCommands";

const Palette = lazy(() => import("./Palette").then(({ Palette }) => ({ default: Palette })));
const Help = lazy(() => import("./Help").then(({ Help }) => ({ default: Help })));

const ROLE: Record<Role, string> = {
  viewer: "May look; may not launch, stop or change anything.",
  operator: "May launch, pause and stop runs.",
  admin: "May do everything, members and limits included.",
};

/** Navigation and header around every page of a logged-in user; owner of the one live socket. */
export function Shell() {
  const navigate = useNavigate();
  const { data: me } = useSuspenseQuery(meQuery());
  const chosen = chosenProject.use();
  const project = projectOf(me, chosen);

  useEffect(() => {
    // What was remembered may be of another person, or gone.
    if (chosen !== undefined && project?.slug !== chosen) chosenProject.set(undefined);
  }, [chosen, project]);

  const toLogin = () => {
    navigate({ to: "/login", search: { next: location.pathname + location.search } }).catch(() => undefined);
  };
  return (
    <LiveProvider onUnauthenticated={toLogin}>
      <a className={classes.skip} href="#content">
        Skip to content
      </a>
      <Frame username={me.user.username} projects={me.projects} project={project} />
    </LiveProvider>
  );
}

type Dialog = "palette" | "help" | null;

function Frame({ username, projects, project }: { username: string; projects: Project[]; project: Project | undefined }) {
  const [isOpen, drawer] = useDisclosure();
  const [dialog, setDialog] = useState<Dialog>(null);
  useShellKeys(setDialog);
  return (
    <div className={classes.shell}>
      <header className={classes.header}>
        <Burger className={classes.burger} opened={isOpen} onClick={drawer.toggle} size="xs" aria-label="Navigation" />
        <Link to="/runs" className={classes.brand} aria-label="Longtail">
          <Mark /> <span className={classes.name}>Longtail</span>
        </Link>
        {project !== undefined && <ProjectSwitch projects={projects} project={project} />}
        <div className={classes.tools}>
          <button type="button" className={classes.search} onClick={() => setDialog("palette")} aria-keyshortcuts="Control+K">
            <SearchMark />
            <span className={classes.searchText}>Go to or do</span> <kbd>Ctrl K</kbd>
          </button>
          <LivePill />
          <ZoneToggle />
          <PersonMenu name={username} role={project?.role} onHelp={() => setDialog("help")} />
        </div>
      </header>
      <nav className={classes.nav} aria-label="Main">
        <Places />
      </nav>
      <main className={classes.main} id="content" tabIndex={-1}>
        {project === undefined ? (
          <EmptyState title="You are in no project yet">Ask an admin to add {username} to one; then its runs are here.</EmptyState>
        ) : (
          <Outlet />
        )}
      </main>
      <Drawer opened={isOpen} onClose={drawer.close} title="Longtail" size={240} padding="md" closeButtonProps={{ "aria-label": "Close" }}>
        <nav aria-label="Main">
          <Places onGo={drawer.close} />
        </nav>
      </Drawer>
      <Suspense>
        {dialog === "palette" && <Palette onClose={() => setDialog(null)} onHelp={() => setDialog("help")} />}
        {dialog === "help" && <Help onClose={() => setDialog(null)} />}
      </Suspense>
    </div>
  );
}

/** The keys of every page. Ctrl-K is no single key: it works in fields and cannot be turned off. */
function useShellKeys(open: (dialog: Dialog) => void): void {
  const navigate = useNavigate();
  const actions = useActions();
  const ofActions = actions.flatMap(({ hint, label, act }) => (hint === undefined ? [] : [[hint, { label, act }] as const]));
  const ofPlaces = PLACES.map(({ keys, label, to }) => [keys, { label, act: () => { navigate({ to }).catch(() => undefined); } }] as const);
  useKeys({ ...Object.fromEntries([...ofActions, ...ofPlaces]), "?": { label: "This help", act: () => open("help") } }, "Everywhere");

  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      open("palette");
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, [open]);
}

function Places({ onGo }: { onGo?: () => void }) {
  return (
    <>
      {["Work", "Fleet"].map((section) => (
        <div key={section} className={classes.section} role="group" aria-label={section}>
          {PLACES.filter((place) => place.section === section).map(({ label, to }) => (
            <Link key={label} to={to} className={classes.place} activeProps={{ "data-active": true }} onClick={onGo}>
              {label}
            </Link>
          ))}
        </div>
      ))}
      <RunPlaces onGo={onGo} />
    </>
  );
}

/** The tabs of the run that one came from; on the run's own pages the tabs are above the content. */
function RunPlaces({ onGo }: { onGo: (() => void) | undefined }) {
  const { run, isHere } = useActiveRun();
  if (run === undefined || isHere) return null;
  return (
    <div className={classes.section} role="group" aria-label={`Run ${run}`}>
      <span className={classes.heading}>Run {run}</span>
      {RUN_TABS.map(({ to, label }) => (
        <Link key={label} to={to} params={{ run }} className={classes.place} onClick={onGo}>
          {label}
        </Link>
      ))}
    </div>
  );
}

/** A distribution with a long tail. */
function Mark() {
  return (
    <svg width="20" height="16" viewBox="0 0 20 16" fill="none" aria-hidden="true">
      <path d="M1 15C3 15 3.6 2 6 2s2.6 8 5 10.200c2 1.700 5 2.300 8 2.500" stroke="var(--role-rollout)" strokeWidth="1.8" strokeLinecap="round" />
    </svg>
  );
}

function SearchMark() {
  return (
    <svg width="14" height="14" viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.5" aria-hidden="true">
      <circle cx="7" cy="7" r="4.500" />
      <path d="m10.500 10.500 3.500 3.500" strokeLinecap="round" />
    </svg>
  );
}

function ProjectSwitch({ projects, project }: { projects: Project[]; project: Project }) {
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const choose = (slug: string) => {
    chosenProject.set(slug);
    navigate({ to: "/runs" })
      .then(() => queryClient.resetQueries({ predicate: (query) => query.queryKey[0] !== "me" }))
      .catch(() => undefined);
  };
  const role = (
    <span className={classes.role} title={ROLE[project.role]}>
      {project.role}
    </span>
  );
  if (projects.length === 1) {
    return (
      <span className={classes.project}>
        {project.name} {role}
      </span>
    );
  }
  return (
    <Menu position="bottom-start" width={200}>
      <Menu.Target>
        <button type="button" className={`${classes.tool ?? ""} ${classes.project ?? ""}`} aria-label={`${project.name} ${project.role}: choose another project`}>
          {project.name} {role} <span aria-hidden>▾</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        {projects.map(({ slug, name, role: inIt }) => (
          <Menu.Item key={slug} onClick={() => choose(slug)} rightSection={<span className={classes.role}>{inIt}</span>}>
            {name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function ZoneToggle() {
  const zone = useZone();
  const local = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts().find(({ type }) => type === "timeZoneName")?.value ?? "";
  const label = zone === "utc" ? "UTC" : `Local, ${local}`;
  return (
    <button
      type="button" className={`${classes.tool ?? ""} ${classes.zone ?? ""}`} onClick={() => setZone(zone === "utc" ? "local" : "utc")}
      aria-label={`${label}: the zone of all times. Change`}
    >
      {label}
    </button>
  );
}

const THEMES = [
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
  { value: "auto", label: "As the system" },
] as const;

function PersonMenu({ name, role, onHelp }: { name: string; role: Role | undefined; onHelp: () => void }) {
  const navigate = useNavigate();
  const logout = useLogout();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const zone = useZone();
  const keys = singleKeys.use();
  const toLogin = () => {
    navigate({ to: "/login" }).catch(() => undefined);
  };
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <button type="button" className={classes.tool} aria-label={`${name}: theme, keys, log out`}>
          <span className={classes.person}>{name}</span> <span aria-hidden>▾</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{role === undefined ? `${name}, in no project` : `${name}, ${role}. ${ROLE[role]}`}</Menu.Label>
        <Menu.Divider />
        <Menu.RadioGroup value={colorScheme} onChange={(value) => setColorScheme(THEMES.find((theme) => theme.value === value)?.value ?? "auto")}>
          {THEMES.map(({ value, label }) => (
            <Menu.RadioItem key={value} value={value}>
              {label}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
        <Menu.Divider />
        <Menu.RadioGroup value={zone} onChange={(value) => setZone(value === "utc" ? "utc" : "local")}>
          <Menu.RadioItem value="local">Times in your zone</Menu.RadioItem>
          <Menu.RadioItem value="utc">Times in UTC</Menu.RadioItem>
        </Menu.RadioGroup>
        <Menu.Divider />
        <Menu.CheckboxItem checked={keys === "on"} onChange={(isOn) => singleKeys.set(isOn ? "on" : "off")}>
          Single keys
        </Menu.CheckboxItem>
        <Menu.Item onClick={onHelp} rightSection={<kbd className={classes.key}>?</kbd>}>
          Keyboard help
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item onClick={() => logout.mutate(undefined, { onSuccess: toLogin })}>Log out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
