import { Button, Group, Modal, Textarea, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type RunCommand, useRunCommand } from "../../api/runs";
import type { RunDetail, RunStatus } from "../../api/types";
import { titleOf } from "../../components/ErrorState";

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
        <CommandButton key={command} run={run} command={command} />
      ))}
      <Button variant="default" renderRoot={(props) => <Link {...props} to="/runs/new" search={{ from_run: run.id }} />}>
        Clone
      </Button>
    </>
  );
}

/** Asks why, and stays pending until the server's own state comes back. */
export function CommandButton({ run, command, label }: { run: RunDetail; command: RunCommand; label?: string }) {
  const action = ACTIONS[command];
  const [isAsked, setAsked] = useState(false);
  const [reason, setReason] = useState("");
  const mutation = useRunCommand(run.id);
  const why = run.commands.find((one) => one.command === command)?.why_not ?? "";
  const isRefused = why !== "";

  const send = () =>
    mutation.mutate(
      { command, reason },
      {
        onSuccess: () => {
          setAsked(false);
          setReason("");
        },
        onError: (error) => notifications.show({ title: `${action.label} was refused`, message: titleOf(error), color: "red" }),
      },
    );
  return (
    <>
      <Tooltip label={why} disabled={!isRefused} events={{ hover: true, focus: true, touch: true }} multiline maw={320}>
        <Button
          variant="default"
          data-disabled={isRefused || undefined}
          aria-disabled={isRefused}
          onClick={() => {
            if (!isRefused) setAsked(true);
          }}
        >
          {label ?? action.label}
        </Button>
      </Tooltip>
      <Modal opened={isAsked} onClose={() => setAsked(false)} title={`${action.label}: ${run.name}`} size="md">
        <p>{action.consequence}</p>
        <Textarea
          label="Reason"
          description="Kept in the event feed."
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          autosize
          minRows={2}
          data-autofocus
        />
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={() => setAsked(false)}>
            Cancel
          </Button>
          <Button {...(action.isFinal === true ? { color: "red" } : {})} loading={mutation.isPending} disabled={reason.trim() === ""} onClick={send}>
            {action.label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
