import { TextInput } from "@mantine/core";

import type { Step } from "../../api/types";
import { ABSENT, formatCount, formatNumber } from "../../lib/format";
import classes from "./StepsTab.module.css";
import { compareWindows, formatRange, parseRange } from "./windows";

type Props = { steps: readonly Step[]; a: string; b: string; onRange: (change: { a?: string; b?: string }) => void };

/** Two windows of steps: the mean of each figure in each, how many steps it is of, and the difference. */
export function WindowComparison({ steps, a, b, onRange }: Props) {
  const ranges = { a: parseRange(a), b: parseRange(b) };
  const input = (name: "a" | "b", text: string, label: string) => (
    <TextInput
      label={label} defaultValue={text} key={text} placeholder="1-20"
      error={text !== "" && ranges[name] === undefined ? "Two step numbers, as 1-20." : undefined}
      onBlur={(event) => onRange({ [name]: event.currentTarget.value.trim() })}
      onKeyDown={(event) => {
        if (event.key === "Enter") onRange({ [name]: event.currentTarget.value.trim() });
      }}
    />
  );
  return (
    <section className={`${classes.box} ${classes.windows}`} aria-label="Two windows of steps">
      <div className={classes.inputs}>
        {input("a", a, "First window")}
        {input("b", b, "Second window")}
      </div>
      {ranges.a !== undefined && ranges.b !== undefined && (
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">figure</th>
              <th scope="col">{formatRange(ranges.a)}</th><th scope="col">p90</th><th scope="col">n</th>
              <th scope="col">{formatRange(ranges.b)}</th><th scope="col">p90</th><th scope="col">n</th>
              <th scope="col">difference</th>
            </tr>
          </thead>
          <tbody>
            {compareWindows(steps, ranges.a, ranges.b).map(({ figure, a: first, b: second, difference }) => (
              <tr key={figure.key}>
                <th scope="row">{figure.label}{figure.unit !== "" && ` (${figure.unit})`}</th>
                <td>{shown(first.mean)}</td><td>{shown(first.p90)}</td><td>{first.num}</td>
                <td>{shown(second.mean)}</td><td>{shown(second.p90)}</td><td>{second.num}</td>
                <td>{difference === null ? ABSENT : `${difference > 0 ? "+" : ""}${shown(difference)}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Tokens are counts in the millions; everything else has three digits. */
function shown(value: number | null): string {
  return value !== null && Math.abs(value) >= 1000 ? formatCount(value).replace("-", "−") : formatNumber(value);
}
