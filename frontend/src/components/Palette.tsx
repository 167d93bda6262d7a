import { Modal } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";

import { answer, api } from "../api/client";
import { fuzzyFind } from "../lib/fuzzy";
import { RUN_STATUS } from "../lib/status";
import { type Target, targetsOf } from "../lib/targets";
import classes from "./Palette.module.css";
import { useActiveRun } from "./useActiveRun";
import { type Command, settle, useActions, usePlaces } from "./useCommands";

const SHOWN = 40;

/** Ctrl-K: pages, runs by name, things by number, actions. Everything by keyboard. */
export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const [query, setQuery] = useState("");
  const [active, setActive] = useState(0);
  const commands = useFound(query, onHelp);
  const chosen = commands[Math.min(active, commands.length - 1)];

  const run = (command: Command) => {
    onClose();
    command.act();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && commands.length > 0) {
      event.preventDefault();
      const next = (active + step + commands.length) % commands.length;
      setActive(next);
      document.getElementById(optionId(commands[next]))?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && chosen !== undefined) {
      event.preventDefault();
      run(chosen);
    }
  };
  return (
    <Modal.Root opened onClose={onClose} size={560} yOffset={72} transitionProps={{ duration: 0 }}>
      <Modal.Overlay backgroundOpacity={0.35} />
      <Modal.Content aria-label="Go to or do">
        <input
          className={classes.input} data-autofocus role="combobox" aria-expanded aria-controls="palette" aria-autocomplete="list"
          aria-activedescendant={chosen === undefined ? undefined : optionId(chosen)} aria-label="Page, run, trajectory 123, task key or action"
          placeholder="Page, run, “trajectory 123”, “task key”, action …" autoComplete="off" spellCheck={false} value={query}
          onChange={(event) => {
            setQuery(event.currentTarget.value);
            setActive(0);
          }}
          onKeyDown={onKeyDown}
        />
        <div className={classes.list} id="palette" role="listbox" aria-label="Found">
          {commands.map((command, i) => (
            // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- the input has the focus and the keys; a pointer chooses directly
            <div
              key={command.id} id={optionId(command)} className={classes.option} role="option" tabIndex={-1} aria-selected={command === chosen}
              onClick={() => run(command)} onMouseMove={() => setActive(i)}
            >
              <span className={classes.label}>{command.label}</span>
              <span className={classes.group}>{command.group}</span>
              {command.hint !== undefined && <kbd className={classes.hint}>{command.hint}</kbd>}
            </div>
          ))}
        </div>
        {commands.length === 0 && <p className={classes.none}>Nothing is called that. A number opens a trajectory or a run.</p>}
      </Modal.Content>
    </Modal.Root>
  );
}

function optionId(command: Command | undefined): string {
  return command === undefined ? "" : `palette-${command.id.replaceAll(" ", "-")}`;
}

function useFound(query: string, onHelp: () => void): Command[] {
  const fixed = [...usePlaces(), ...useActions(), { id: "help", group: "Do", label: "Keyboard help", hint: "?", act: onHelp }];
  const targets = useTargets(targetsOf(query));
  const runs = useRuns(query);
  const found = fuzzyFind(query, [...fixed, ...runs], ({ label, group }) => `${label} ${group}`);
  return [...targets, ...found].slice(0, SHOWN);
}

function useTargets(targets: Target[]): Command[] {
  const navigate = useNavigate();
  const { run } = useActiveRun();
  return targets.flatMap((target): Command[] => {
    const to = { id: `to ${target.kind}`, group: "Open" };
    switch (target.kind) {
      case "run":
        return [{ ...to, label: `Run ${target.id}`, act: () => settle(navigate({ to: "/runs/$run/overview", params: { run: target.id } })) }];
      case "trajectory":
        return [
          { ...to, label: `Trajectory ${target.id}`, act: () => settle(navigate({ to: "/trajectories/$trajectory", params: { trajectory: target.id } })) },
        ];
      case "sandbox":
        return [{ ...to, label: `Sandbox ${target.id}`, act: () => settle(navigate({ to: "/sandboxes/$sandbox", params: { sandbox: target.id } })) }];
      case "failure":
        return [{ ...to, label: `Failure group ${target.id}`, act: () => settle(navigate({ to: "/failures/$group", params: { group: target.id } })) }];
      case "task": {
        if (run === undefined) return [];
        const search = { task: target.key };
        return [
          { ...to, label: `Trajectories of task ${target.key}, run ${run}`, act: () => settle(navigate({ to: "/runs/$run/trajectories", params: { run }, search })) },
        ];
      }
    }
  });
}

function useRuns(query: string): Command[] {
  const navigate = useNavigate();
  const [name] = useDebouncedValue(query.trim(), 150);
  const { data } = useQuery({
    queryKey: ["runs", "by name", name],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs", { params: { query: { limit: 8, ...(name === "" ? {} : { name }) } }, signal })),
    placeholderData: keepPreviousData,
  });
  return (data?.results ?? []).map((run) => ({
    id: `run ${run.id}`, group: `Run ${run.id}, ${RUN_STATUS[run.status].label.toLowerCase()}`, label: run.name,
    act: () => settle(navigate({ to: "/runs/$run/overview", params: { run: run.id } })),
  }));
}
