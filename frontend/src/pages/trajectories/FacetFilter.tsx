import { Checkbox, Popover, TextInput } from "@mantine/core";
import { useState } from "react";

import { formatCount } from "../../lib/format";
import classes from "./TrajectoriesTab.module.css";
import { withWord } from "./search";

type Props = {
  label: string;
  /** Most frequent first, counted under the other filters; undefined while it is not known. */
  counts: readonly { value: string; count: number }[] | undefined;
  value: string | undefined;
  nameOf?: (value: string) => string;
  onChange: (value: string | undefined) => void;
};

const MANY = 10;

/** Any of the values of a column, with how many rows each would leave. */
export function FacetFilter({ label, counts = [], value, nameOf = (word) => word, onChange }: Props) {
  const [sought, setSought] = useState("");
  const chosen = (value ?? "").split(",").filter((word) => word !== "");
  const missing = chosen.filter((word) => counts.every((one) => one.value !== word)).map((word) => ({ value: word, count: 0 }));
  const shown = [...counts, ...missing].filter((one) => nameOf(one.value).toLowerCase().includes(sought.toLowerCase()));
  return (
    <Popover position="bottom-start" trapFocus onChange={() => setSought("")}>
      <Popover.Target>
        <button type="button" className={classes.filter} data-on={chosen.length > 0} disabled={counts.length === 0 && chosen.length === 0}>
          {label}
          {chosen.length > 0 && <b>{chosen.length > 1 ? `${chosen.length} chosen` : nameOf(chosen[0] ?? "")}</b>}
        </button>
      </Popover.Target>
      <Popover.Dropdown aria-label={label}>
        {counts.length > MANY && (
          <TextInput size="xs" aria-label={`Find in ${label}`} placeholder="Find" value={sought} onChange={(event) => setSought(event.currentTarget.value)} mb={8} />
        )}
        <ul className={classes.values}>
          {shown.map((one) => (
            <li key={one.value}>
              <Checkbox size="xs" label={nameOf(one.value)} checked={chosen.includes(one.value)} onChange={() => onChange(withWord(value, one.value))} />
              <span>{formatCount(one.count)}</span>
            </li>
          ))}
        </ul>
        <button type="button" className={classes.clear} disabled={chosen.length === 0} onClick={() => onChange(undefined)}>
          Any {label.toLowerCase()}
        </button>
      </Popover.Dropdown>
    </Popover>
  );
}
