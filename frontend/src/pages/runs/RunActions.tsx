import { Button, Group, Modal, Textarea, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";

import { type RunCommand, useRunCommand } from "../../api/runs";
import type { Run, RunStatus, User } from "../../api/types";
import { titleOf } from "../../components/ErrorState";

type Action = { command: RunCommand; label: string; consequence: string; from: readonly RunStatus[]; isFinal?: boolean };

const ACTIONS: Action[] = [
  {
    command: "pause", label: "Pause", from: ["running"],
    consequence: "Nothing new is admitted and no step begins. What is in flight finishes; engines keep serving.",
  },
  { command: "resume", label: "Resume", from: ["paused", "failed", "cancelled"], consequence: "The run goes on from where it stands." },
  {
    command: "stop", label: "Stop", from: ["running", "paused"], isFinal: true,
    consequence: "Trajectories in flight are cancelled and their sandboxes removed. Steps that are done are kept.",
  },
];

/** Pause, resume, stop: each asks why, and stays pending until the server's state says it happened. */
export function RunActions({ run, role }: { run: Run; role: User["role"] }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const [reason, setReason] = useState("");
  const command = useRunCommand(run.id);

  const refusal = (action: Action) => {
    if (role === "viewer") return "Viewers may look, operators may act.";
    if (!action.from.includes(run.status)) return `A run that is ${run.status} cannot be ${PAST[action.command]}.`;
    return null;
  };
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
  const shown = ACTIONS.filter((action) => action.command !== "resume" || action.from.includes(run.status));
  const isOver = run.status === "succeeded" || run.status === "failed" || run.status === "cancelled";
  return (
    <>
      {shown
        .filter((action) => !isOver || action.command === "resume")
        .filter((action) => !(action.command === "pause" && run.status === "paused"))
        .map((action) => {
          const refused = refusal(action);
          return (
            <Tooltip key={action.command} label={refused} disabled={refused === null}>
              <Button
                size="xs"
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
          );
        })}
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
          <Button size="xs" variant="default" onClick={() => setAsked(null)}>
            Cancel
          </Button>
          <Button size="xs" color={asked?.isFinal ? "red" : undefined} loading={command.isPending} disabled={reason.trim() === ""} onClick={send}>
            {asked?.label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}

const PAST: Record<RunCommand, string> = { pause: "paused", resume: "resumed", stop: "stopped" };
