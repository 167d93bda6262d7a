import { Button, Group, Modal, Textarea, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { type ReactNode, useState } from "react";

import type { Role } from "../api/types";
import { titleOf } from "./ErrorState";

type Props = {
  label: string;
  /** Of the dialog: what the command is about. */
  title: string;
  consequence: ReactNode;
  role: Role;
  /** More to ask than the reason. */
  children?: ReactNode;
  isFinal?: boolean;
  isDisabled?: boolean;
  send: (reason: string) => Promise<unknown>;
};

/** Asks why, stays pending until the server has answered, and says why somebody may not. */
export function CommandButton({ label, title, consequence, role, children, isFinal = false, isDisabled = false, send }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [isPending, setPending] = useState(false);
  const [reason, setReason] = useState("");
  const refused = role === "viewer" ? "Viewers may look, operators may act." : null;

  const submit = async () => {
    setPending(true);
    try {
      await send(reason.trim());
      setOpen(false);
      setReason("");
    } catch (error) {
      notifications.show({ title: `${label} was refused`, message: titleOf(error), color: "red" });
    } finally {
      setPending(false);
    }
  };
  return (
    <>
      <Tooltip label={refused} disabled={refused === null}>
        <Button
          variant="default"
          size="xs"
          disabled={isDisabled}
          data-disabled={refused !== null || undefined}
          aria-disabled={refused !== null}
          onClick={() => {
            if (refused === null) setOpen(true);
          }}
        >
          {label}
        </Button>
      </Tooltip>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={title} size="md">
        <p>{consequence}</p>
        {children}
        <Textarea
          label="Reason"
          description="Kept in the audit log."
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          autosize
          minRows={2}
          maxLength={500}
          data-autofocus
        />
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={() => setOpen(false)}>
            Cancel
          </Button>
          <Button
            color={isFinal ? "red" : undefined}
            loading={isPending}
            disabled={reason.trim() === ""}
            onClick={() => {
              submit().catch(() => undefined);
            }}
          >
            {label}
          </Button>
        </Group>
      </Modal>
    </>
  );
}
