import { Popover, TextInput } from "@mantine/core";

import classes from "./TrajectoriesTab.module.css";
import { rangeOf, rangeText } from "./search";

type Props = { label: string; unit?: string; value: string | undefined; onChange: (value: string | undefined) => void };

/** From … to …: the API's comparisons of a number. What it cannot say as a range is shown as it is. */
export function RangeFilter({ label, unit = "", value, onChange }: Props) {
  const range = rangeOf(value);
  const { from, to } = range ?? { from: "", to: "" };
  const words = range === undefined ? value : from !== "" && to !== "" ? `${from} – ${to}` : from !== "" ? `≥ ${from}` : `≤ ${to}`;
  const set = (change: Partial<{ from: string; to: string }>) => onChange(rangeText({ from, to, ...change }));
  return (
    <Popover position="bottom-start" trapFocus>
      <Popover.Target>
        <button type="button" className={classes.filter} data-on={value !== undefined}>
          {label}
          {value !== undefined && <b>{words}{unit}</b>}
        </button>
      </Popover.Target>
      <Popover.Dropdown aria-label={label}>
        <form
          key={value}
          className={classes.range}
          onSubmit={(event) => {
            event.preventDefault();
            const data = new FormData(event.currentTarget);
            set({ from: numeral(data.get("from")), to: numeral(data.get("to")) });
          }}
        >
          <TextInput size="xs" name="from" label={`From${unit}`} inputMode="decimal" defaultValue={from} />
          <TextInput size="xs" name="to" label={`To${unit}`} inputMode="decimal" defaultValue={to} />
          <button type="submit" className={classes.clear}>Apply</button>
          <button type="button" className={classes.clear} disabled={value === undefined} onClick={() => onChange(undefined)}>
            Any
          </button>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}

function numeral(entry: FormDataEntryValue | null): string {
  return typeof entry === "string" && entry.trim() !== "" && Number.isFinite(Number(entry)) ? String(Number(entry)) : "";
}
