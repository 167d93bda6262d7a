import { Link } from "@tanstack/react-router";

import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { ScrollRegion } from "../../../components/ScrollRegion";
import { formatCount, formatDuration, visibleText } from "../../../lib/format";
import classes from "./figures.module.css";
import own from "./StageFunnel.module.css";

type Stage = Overview["funnel"][number];

const LABEL: Partial<Record<Stage["stage"], string>> = { infer: "LLM calls", exec: "shell", verify: "tests" };

/** Who entered each stage of a sandbox's life and who came out (article, figure 6, top). */
export function StageFunnel({ run, funnel }: { run: number; funnel: readonly Stage[] }) {
  const most = Math.max(1, ...funnel.map(({ entered }) => entered));
  return (
    <ChartFrame
      title="Sandbox stages" note="sandboxes of all stages of the run; times of those that passed"
      legend={[{ label: "passed", color: "var(--role-sandbox)", mark: "block" }, { label: "failed by the infrastructure", color: "var(--tone-failed)", mark: "block" }]}
      twin={<Rows run={run} funnel={funnel} most={most} isPlain />}
    >
      {funnel.length === 0 ? <p className={classes.nothing}>No sandbox yet</p> : (
        <ScrollRegion className={classes.scroll} label="Sandbox stages, table">
          <Rows run={run} funnel={funnel} most={most} />
        </ScrollRegion>
      )}
    </ChartFrame>
  );
}

function Rows({ run, funnel, most, isPlain = false }: { run: number; funnel: readonly Stage[]; most: number; isPlain?: boolean }) {
  return (
    <table className={isPlain ? undefined : classes.table}>
      <thead>
        <tr>
          <th scope="col">stage</th>
          {!isPlain && <td className={own.bar} aria-hidden="true" />}
          <th scope="col">entered</th>
          <th scope="col">failed</th>
          <th scope="col">retried</th>
          <th scope="col">p50</th>
          <th scope="col">p99</th>
          <th scope="col" className={classes.text}>most frequent failure</th>
        </tr>
      </thead>
      <tbody>
        {funnel.map((row) => (
          <tr key={row.stage}>
            <th scope="row">{LABEL[row.stage] ?? row.stage}</th>
            {!isPlain && (
              <td className={own.bar} aria-hidden="true">
                <div className={own.track}>
                  <div className={own.ok} style={{ width: `${(row.ok / most) * 100}%` }} />
                  {row.failed > 0 && <div className={own.failed} style={{ width: `${(row.failed / most) * 100}%` }} />}
                </div>
              </td>
            )}
            <td>{formatCount(row.entered)}</td>
            <td>{row.failed === 0 ? <span className={classes.dim}>0</span> : formatCount(row.failed)}</td>
            <td>{row.failed === 0 ? <span className={classes.dim}>–</span> : formatCount(row.retried)}</td>
            <td>{formatDuration(row.p50_s)}</td>
            <td>{formatDuration(row.p99_s)}</td>
            <td className={`${classes.text} ${own.failure}`}>
              {row.top_failure === null ? <span className={classes.dim}>none</span> : (
                <Link to="/failures/$group" params={{ group: row.top_failure.id }} search={{ run }} title={visibleText(row.top_failure.message)}>
                  {formatCount(row.top_failure.num)} × {visibleText(row.top_failure.message)}
                </Link>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
