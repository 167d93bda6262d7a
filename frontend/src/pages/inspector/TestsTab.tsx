import { useQuery } from "@tanstack/react-query";

import { testsQuery, type VerdictCheck } from "../../api/inspector";
import { EmptyState } from "../../components/EmptyState";
import { Icon } from "../../components/Icon";
import { Loading } from "../../components/Loading";
import { AttemptReward } from "../../components/Reward";
import { formatDuration, visibleText, words } from "../../lib/format";
import { ATTEMPT_STATUS } from "../../lib/status";
import { Fault } from "./Fault";
import type { TabProps } from "./tabs";
import classes from "./TestsTab.module.css";
import { VirtualText } from "./VirtualText";

const KINDS: { kind: VerdictCheck["kind"]; title: string; meaning: string }[] = [
  { kind: "fail_to_pass", title: "Fail to pass", meaning: "failed before the change; the issue is solved when all pass" },
  { kind: "pass_to_pass", title: "Pass to pass", meaning: "passed before the change, and must still" },
  { kind: "other", title: "Checks", meaning: "what the verifier of this task names" },
];

/** What the verifier said. The tests are restored from the task before they run, whatever the agent did to them. */
export function TestsTab({ trajectory, attempt }: TabProps) {
  const query = useQuery(testsQuery(trajectory.id, attempt.number));
  if (query.isError) return <Fault query={query} />;
  if (query.data === undefined) return <Loading rows={6} />;
  const { is_graded, checks, output, duration_s } = query.data;
  if (!is_graded) return <EmptyState title="Not graded">Attempt {attempt.number}: {ATTEMPT_STATUS[attempt.status].meaning}</EmptyState>;
  return (
    <div className={classes.page}>
      <p className={classes.lead}>
        Reward <AttemptReward attempt={attempt} />, verified in {formatDuration(duration_s ?? attempt.timings.verify)}
        {query.data.is_attributed_to_policy && ": the verifier broke down by the agent’s own doing, so it counts as a zero"}. A test is
        restored from the task before it runs.
      </p>
      {KINDS.map(({ kind, title, meaning }) => <Checks key={kind} title={title} meaning={meaning} checks={checks.filter((check) => check.kind === kind)} />)}
      {checks.length === 0 && <p className={classes.lead}>The verifier named no single check.</p>}
      <section>
        <h2 className={classes.title}>Verifier output</h2>
        {output === "" ? <p className={classes.lead}>It printed nothing.</p> : <VirtualText label="verifier output" text={output} />}
      </section>
    </div>
  );
}

function Checks({ title, meaning, checks }: { title: string; meaning: string; checks: readonly VerdictCheck[] }) {
  if (checks.length === 0) return null;
  return (
    <section>
      <h2 className={classes.title}>
        {title} <span>{meaning}</span>
      </h2>
      <table className={classes.checks}>
        <thead>
          <tr>
            <th scope="col">Check</th>
            <th scope="col" data-align="right">Passed</th>
            <th scope="col" data-align="right">Of</th>
            <th scope="col">Said</th>
          </tr>
        </thead>
        <tbody>
          {checks.map((check) => (
            <tr key={check.name} data-state={stateOf(check)}>
              <th scope="row">
                <Icon name={ICONS[stateOf(check)]} size={12} /> {visibleText(check.kind === "other" ? words(check.name) : check.name)}
              </th>
              <td data-align="right">{check.passed ?? "–"}</td>
              <td data-align="right">{check.total ?? "–"}</td>
              <td>{visibleText(check.value ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const ICONS = { passed: "check", failed: "cross", unknown: "ring" } as const;

function stateOf({ passed, total }: VerdictCheck): keyof typeof ICONS {
  if (passed === null || total === null) return "unknown";
  return passed >= total ? "passed" : "failed";
}
