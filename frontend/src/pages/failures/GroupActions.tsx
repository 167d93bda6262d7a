import { Select } from "@mantine/core";
import { useState } from "react";

import { useGroupCommand } from "../../api/fleet";
import { whyNotAct } from "../../api/me";
import type { FailureGroupDetail, Role } from "../../api/types";
import { CommandButton } from "../../components/CommandButton";

const PERIODS = [
  { value: "1", label: "for a day" }, { value: "7", label: "for a week" }, { value: "30", label: "for 30 days" },
];

/** What a person may say about a group; the state changes when the server has confirmed it. */
export function GroupActions({ group, role }: { group: FailureGroupDetail; role: Role }) {
  const command = useGroupCommand(group.id);
  const [days, setDays] = useState("7");
  const isSetAside = group.state === "resolved" || group.state === "ignored";
  const name = `${group.stage}: ${group.kind}`;
  return (
    <>
      {!isSetAside && (
        <>
          <CommandButton
            label="Resolve" title={`Resolve ${name}`} whyNot={whyNotAct(role)}
            consequence="Its cause is gone. If it fails again after this, the group is shown as regressed."
            send={(reason) => command.mutateAsync({ command: "resolve", reason })}
          />
          <CommandButton
            label="Ignore" title={`Ignore ${name}`} whyNot={whyNotAct(role)}
            consequence="Known, and not worth a look for a while. Failures are still recorded and counted."
            send={(reason) =>
              command.mutateAsync({ command: "ignore", reason, until: new Date(Date.now() + Number(days) * 86_400_000).toISOString() })
            }
          >
            <Select label="How long" data={PERIODS} value={days} allowDeselect={false} onChange={(value) => setDays(value ?? "7")} mb="sm" />
          </CommandButton>
        </>
      )}
      {(isSetAside || group.state === "regressed") && (
        <CommandButton
          label="Reopen" title={`Reopen ${name}`} whyNot={whyNotAct(role)} consequence="Neither resolved nor ignored any more."
          send={(reason) => command.mutateAsync({ command: "reopen", reason })}
        />
      )}
    </>
  );
}
