import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { type RunCommand, useRunCommand } from "../../api/runs";
import type { RunDetail, RunStatus } from "../../api/types";
import { CommandButton } from "../../components/CommandButton";

type Action = { label: string; consequence: string; shownIn: readonly RunStatus[]; isFinal?: boolean };

const ACTIONS: Record<RunCommand, Action> = {
  pause: {
    label: "Pause", shownIn: ["queued", "running"],
    consequence: "Nothing new is admitted and no step begins. What is in flight finishes; engines keep serving.",
  },
  unpause: { label: "Continue", shownIn: ["paused"], consequence: "Groups are admitted and steps taken again." },
  checkpoint: {
    label: "Checkpoint now", shownIn: ["running", "paused"],
    consequence: "The trainer's state is written at the end of the step in training; between steps, also in a pause, right away.",
  },
  resume: {
    label: "Resume", shownIn: ["failed", "cancelled"],
    consequence: "The run is queued again and goes on from its newest checkpoint. Steps after it stay visible as superseded.",
  },
  stop: {
    label: "Stop", shownIn: ["queued", "running", "paused", "stopping"], isFinal: true,
    consequence: "Trajectories in flight are cancelled and their sandboxes removed. Steps that are done are kept.",
  },
};

/** The commands that mean something in the run's state; what may not be done now is disabled and says why. */
export function RunActions({ run }: { run: RunDetail }) {
  const shown = run.commands.filter(({ command }) => ACTIONS[command].shownIn.includes(run.status));
  return (
    <>
      {shown.map(({ command }) => (
        <RunCommandButton key={command} run={run} command={command} />
      ))}
      <Button variant="default" renderRoot={(props) => <Link {...props} to="/runs/new" search={{ from_run: run.id }} />}>
        Clone
      </Button>
    </>
  );
}

/** The label of a command may be another where its place says more. */
export function RunCommandButton({ run, command, label }: { run: RunDetail; command: RunCommand; label?: string }) {
  const action = ACTIONS[command];
  const mutation = useRunCommand(run.id);
  return (
    <CommandButton
      label={label ?? action.label} title={`${action.label}: ${run.name}`} consequence={action.consequence} keptIn="event feed"
      isFinal={action.isFinal ?? false} whyNot={run.commands.find((one) => one.command === command)?.why_not ?? ""}
      send={(reason) => mutation.mutateAsync({ command, reason })}
    />
  );
}
