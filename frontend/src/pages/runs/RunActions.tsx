import { Button, Group, Modal, Textarea, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";

import { type RunCommand, useRunCommand } from "../../api/runs";
import type { Role, RunDetail, RunStatus } from "../../api/types";
import { titleOf } from "../../components/ErrorState";

type Action = { command: RunCommand; label: string; consequence: string; from: readonly RunStatus[]; isFinal?: boolean };

const ACTIONS: Action[] = [
  {
    command: "pause", label: "Pause", from: ["running"],
    consequence: "Nothing new is admitted and no step begins. What is in flight finishes; engines keep serving.",
  },
  { command: "unpause", label: "Continue", from: ["paused"], consequence: "Groups are admitted and steps taken again." },
  {
    command: "resume", label: "Resume", from: ["failed", "cancelled"],
    consequence: "The run is queued again and goes on from its newest checkpoint. Steps after it stay visible as superseded.",
  },
  {
    command: "stop", label: "Stop", from: ["running", "paused"], isFinal: true,
    consequence: "Trajectories in flight are cancelled and their sandboxes removed. Steps that are done are kept.",
  },
];

/** What the run's state allows; each asks why, and stays pending until the server's own state comes back. */
export function RunActions({ run, role }: { run: RunDetail; role: Role }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const [reason, setReason] = useState("");
  const command = useRunCommand(run.id);

  const refused = role === "viewer" ? "Viewers may look, operators may act." : null;
  const send = () => {
    if (asked === null) return;
    command.mutate(
      { command: asked.command, reason },
      {
        onSuccess: () => {
          setAsked(null);
          setReason("");
        },
        onError: (error) => notifications.show({ title: `${asked.label} was refused`, message: titleOf(error), color: "red" }),
      },
    );
  };
  return (
    <>
      {ACTIONS.filter((action) => action.from.includes(run.status)).map((action) => (
        <Tooltip key={action.command} label={refused} disabled={refused === null}>
          <Button
           
            variant="default"
            data-disabled={refused !== null || undefined}
            aria-disabled={refused !== null}
            onClick={() => {
              if (refused === null) setAsked(action);
            }}
          >
            {action.label}
          </Button>
        </Tooltip>
      ))}
      <Modal opened={asked !== null} onClose={() => setAsked(null)} title={`${asked?.label ?? ""} ${run.name}`} size="md">
        <p>{asked?.consequence}</p>
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
          <Button variant="default" onClick={() => setAsked(null)}>
            Cancel
          </Button>
          <Button color={asked?.isFinal ? "red" : undefined} loading={command.isPending} disabled={reason.trim() === ""} onClick={send}>
            {asked?.label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
