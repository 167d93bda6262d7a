import type { Check } from "../../api/types";
import { Icon } from "../../components/Icon";
import { ScrollRegion } from "../../components/ScrollRegion";
import { ABSENT, formatNumber, visibleText, words } from "../../lib/format";
import type { IconName } from "../../lib/status";
import classes from "./Checks.module.css";

const LEVEL: Record<Check["level"], { icon: IconName; label: string; rank: number }> = {
  error: { icon: "cross", label: "Refused", rank: 0 },
  warning: { icon: "alert", label: "Warning", rank: 1 },
  ok: { icon: "check", label: "OK", rank: 2 },
};

type Props = { checks: readonly Check[]; isOld: boolean; onGoTo: (pointer: string) => void };

/** Every check by name, what it found against what is configured, and what to do; errors first. */
export function Checks({ checks, isOld, onGoTo }: Props) {
  const sorted = [...checks].sort((a, b) => LEVEL[a.level].rank - LEVEL[b.level].rank);
  const count = (level: Check["level"]) => checks.filter((check) => check.level === level).length;
  return (
    <section aria-label="Check" aria-live="polite" className={classes.checks} data-old={isOld}>
      <h2>{isOld ? "Check of an older text" : "Check"}</h2>
      <p className={classes.lead}>
        {count("error") > 0 ? `Refused by ${count("error")} of ${checks.length} checks` : `${checks.length} checks, none refuses the launch`}
        {count("warning") > 0 && `, ${count("warning")} warn`}
      </p>
      <ScrollRegion className={classes.scroller} label="Findings">
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Check</th>
              <th scope="col">Finding, and what to do</th>
              <th scope="col" data-align="right">Configured</th>
              <th scope="col" data-align="right">Measured</th>
              <th scope="col">Unit</th>
              <th scope="col">Field</th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((check) => (
              <tr key={check.name + check.pointer + check.sentence} data-level={check.level}>
                <th scope="row">
                  <span className={classes.name}>
                    <span className={classes.icon} title={LEVEL[check.level].label}>
                      <Icon name={LEVEL[check.level].icon} />
                    </span>
                    {words(check.name)}
                    <span className={classes.hidden}>{LEVEL[check.level].label}</span>
                  </span>
                </th>
                <td>
                  {visibleText(check.sentence)}
                  {check.remedy !== "" && <span className={classes.remedy}>{visibleText(check.remedy)}</span>}
                </td>
                <td data-align="right">{figure(check.configured)}</td>
                <td data-align="right">{figure(check.measured)}</td>
                <td>{check.unit}</td>
                <td>
                  {check.pointer !== "" && (
                    <button type="button" className={classes.pointer} onClick={() => onGoTo(check.pointer)}>
                      {check.pointer}
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </section>
  );
}

function figure(value: number | string | null): string {
  if (value === null) return ABSENT;
  return typeof value === "number" ? formatNumber(value) : visibleText(value);
}
