import { Button, Group, Modal, Textarea, Tooltip } from "@mantine/core";
import { type ReactNode, type SyntheticEvent, useState } from "react";

import { titleOf } from "./ErrorState";

type Props = {
  label: string;
  /** Of the dialog: what the command is about. */
  title: string;
  consequence: ReactNode;
  /** Why it is not possible now; empty when it is. */
  whyNot: string;
  /** Where the reason goes. */
  keptIn?: string;
  /** More to ask than the reason. */
  children?: ReactNode;
  isFinal?: boolean;
  isDisabled?: boolean;
  send: (reason: string) => Promise<unknown>;
};

const stop = (event: SyntheticEvent) => event.stopPropagation();

/** Asks why, stays pending until the server has answered, and says why somebody may not. */
export function CommandButton({
  label, title, consequence, whyNot, keptIn = "audit log", children, isFinal = false, isDisabled = false, send,
}: Props) {
  const [isOpen, setOpen] = useState(false);
  const [isPending, setPending] = useState(false);
  const [reason, setReason] = useState("");
  const [refusal, setRefusal] = useState<string>();
  const isRefused = whyNot !== "";

  const submit = async () => {
    setPending(true);
    setRefusal(undefined);
    try {
      await send(reason.trim());
      setOpen(false);
      setReason("");
    } catch (error) {
      setRefusal(titleOf(error));
    } finally {
      setPending(false);
    }
  };
  return (
    <>
      <Tooltip label={whyNot} disabled={!isRefused} events={{ hover: true, focus: true, touch: true }} multiline maw={320}>
        <Button
          variant="default"
          disabled={isDisabled}
          data-disabled={isRefused || undefined}
          aria-disabled={isRefused}
          onClick={() => {
            if (!isRefused) setOpen(true);
          }}
        >
          {label}
        </Button>
      </Tooltip>
      {/* What is typed and clicked in the dialog is nobody else's: React hands it on to the table that the button stands in. */}
      {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions -- it stops events only */}
      <span onKeyDown={stop} onClick={stop}>
        <Modal opened={isOpen} onClose={() => setOpen(false)} title={title} size="md">
          <p>{consequence}</p>
          {children}
          <Textarea
            label="Reason"
            description={`Kept in the ${keptIn}.`}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            autosize
            minRows={2}
            maxLength={500}
            data-autofocus
          />
          {refusal !== undefined && (
            <p role="alert">
              {label} was refused: {refusal}
            </p>
          )}
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
      </span>
    </>
  );
}
