import type { Attempt } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { EmptyState } from "../../components/EmptyState";
import { ATTEMPT_STATUS } from "../../lib/status";
import { formatDuration } from "../../lib/format";
import classes from "./TestsTab.module.css";

/** What the verifier said. The tests are restored from the task before they run, whatever the agent did to them. */
export function TestsTab({ attempt }: { attempt: Attempt | undefined }) {
  const grade = attempt?.grade;
  if (attempt === undefined || grade === undefined || Object.keys(grade).length === 0) {
    return (
      <EmptyState title="Not graded">
        {attempt === undefined ? "There is no attempt yet." : `Attempt ${attempt.number}: ${ATTEMPT_STATUS[attempt.status].meaning}`}
      </EmptyState>
    );
  }
  const details = Object.entries(grade.details ?? {});
  return (
    <div className={classes.page}>
      <p className={classes.lead}>
        Reward {attempt.reward ?? "none"}, verified in {formatDuration(grade.duration_s ?? attempt.timings.verify)}.
      </p>
      {details.length > 0 && (
        <table className={classes.details}>
          <tbody>
            {details.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{typeof value === "string" ? value : JSON.stringify(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {grade.output !== undefined && grade.output !== "" && <CodeBlock label="verifier output" text={grade.output} />}
    </div>
  );
}
