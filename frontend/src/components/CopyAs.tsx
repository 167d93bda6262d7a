import { Menu } from "@mantine/core";

import { curlCommand } from "../lib/commands";
import { useCopy } from "../lib/useCopy";
import classes from "./CopyButton.module.css";

type Props = {
  /** Of the API, as "/api/v1/runs/7/trajectories". */
  path: string;
  query?: Record<string, unknown>;
  cli?: string;
};

/** What this page shows, for a shell: the same words in the page's address, the API's query and the client's options. */
export function CopyAs({ path, query, cli }: Props) {
  const [state, copy] = useCopy();
  return (
    <Menu position="bottom-end" width={160}>
      <Menu.Target>
        <button type="button" className={classes.button}>
          <span aria-live="polite">{state === "copied" ? "Copied" : state === "failed" ? "The browser refused" : "Copy as"}</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => copy(curlCommand(location.origin, path, query))}>Copy as curl</Menu.Item>
        {cli !== undefined && <Menu.Item onClick={() => copy(cli)}>Copy as CLI</Menu.Item>}
      </Menu.Dropdown>
    </Menu>
  );
}
