import { ActionIcon, Burger, Drawer, Menu, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, type LinkProps, Outlet, useNavigate } from "@tanstack/react-router";

import { meQuery, projectOf, useLogout } from "../api/me";
import { setZone, useZone } from "../lib/preferences";
import { LiveProvider } from "../live/LiveProvider";
import { EmptyState } from "./EmptyState";
import { LivePill } from "./LivePill";
import classes from "./Shell.module.css";

const PLACES: { to: LinkProps["to"]; label: string }[] = [
  { to: "/runs", label: "Runs" },
  { to: "/failures", label: "Failures" },
  { to: "/sandboxes", label: "Sandboxes" },
  { to: "/engines", label: "Engines" },
  { to: "/workers", label: "Workers" },
  { to: "/limits", label: "Limits" },
  { to: "/task-sets", label: "Task sets" },
];

/** Navigation and header around every page of a logged-in user; owner of the one live socket. */
export function Shell() {
  const navigate = useNavigate();
  const [isOpen, drawer] = useDisclosure();
  const { data: me } = useSuspenseQuery(meQuery());
  const project = projectOf(me);

  const toLogin = () => {
    navigate({ to: "/login", search: { next: location.pathname + location.search } }).catch(() => undefined);
  };

  return (
    <LiveProvider onUnauthenticated={toLogin}>
      <a className={classes.skip} href="#content">
        Skip to content
      </a>
      <div className={classes.shell}>
        <header className={classes.header}>
          <Burger className={classes.burger} opened={isOpen} onClick={drawer.toggle} size="xs" aria-label="Navigation" />
          <Link to="/runs" className={classes.brand}>
            <Mark /> Longtail
          </Link>
          <span className={classes.project}>{project?.name}</span>
          <div className={classes.tools}>
            <LivePill />
            <ZoneToggle />
            <ThemeToggle />
            <UserMenu name={me.user.username} role={project?.role ?? "in no project"} />
          </div>
        </header>
        <nav className={classes.nav} aria-label="Main">
          <Places />
        </nav>
        <main className={classes.main} id="content" tabIndex={-1}>
          {project === undefined ? (
            <EmptyState title="You are in no project yet">An admin adds you to one; then its runs are here.</EmptyState>
          ) : (
            <Outlet />
          )}
        </main>
      </div>
      <Drawer opened={isOpen} onClose={drawer.close} title="Longtail" size={240} padding="md">
        <nav aria-label="Main" className={classes.drawer}>
          <Places onGo={drawer.close} />
        </nav>
      </Drawer>
    </LiveProvider>
  );
}

function Places({ onGo }: { onGo?: () => void }) {
  return PLACES.map(({ to, label }) => (
    <Link key={label} to={to} className={classes.place} activeProps={{ "data-active": true }} onClick={onGo}>
      {label}
    </Link>
  ));
}

/** A distribution with a long tail. */
function Mark() {
  return (
    <svg width="20" height="16" viewBox="0 0 20 16" fill="none" aria-hidden="true">
      <path d="M1 15C3 15 3.6 2 6 2s2.6 8 5 10.200c2 1.700 5 2.300 8 2.500" stroke="var(--role-rollout)" strokeWidth="1.8" strokeLinecap="round" />
    </svg>
  );
}

function ZoneToggle() {
  const zone = useZone();
  const next = zone === "utc" ? "local" : "utc";
  return (
    <button type="button" className={classes.tool} onClick={() => setZone(next)} title={`Times are ${zone === "utc" ? "in UTC" : "in your zone"}. Click to change.`}>
      {zone === "utc" ? "UTC" : "Local"}
    </button>
  );
}

function ThemeToggle() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const next = scheme === "dark" ? "light" : "dark";
  return (
    <ActionIcon variant="subtle" size={24} onClick={() => setColorScheme(next)} aria-label={`Use the ${next} theme`}>
      <svg width="14" height="14" viewBox="0 0 16 16" fill="none" stroke="currentColor" aria-hidden="true">
        <circle cx="8" cy="8" r="5.8" strokeWidth="1.5" />
        <path d="M8 2.200a5.800 5.800 0 0 1 0 11.600Z" fill="currentColor" stroke="none" />
      </svg>
    </ActionIcon>
  );
}

function UserMenu({ name, role }: { name: string; role: string }) {
  const navigate = useNavigate();
  const logout = useLogout();
  const toLogin = () => {
    navigate({ to: "/login" }).catch(() => undefined);
  };
  return (
    <Menu position="bottom-end" width={160}>
      <Menu.Target>
        <button type="button" className={classes.tool}>
          {name}
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{role}</Menu.Label>
        <Menu.Item onClick={() => logout.mutate(undefined, { onSuccess: toLogin })}>Log out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
