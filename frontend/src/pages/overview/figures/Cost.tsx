import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { ScrollRegion } from "../../../components/ScrollRegion";
import { formatCount, formatDuration, formatNumber, formatShare } from "../../../lib/format";
import classes from "./figures.module.css";

/** What the run used so far, for what it gave. */
export function Cost({ cost, calls }: Pick<Overview, "cost" | "calls">) {
  const per = (seconds: number, num: number | null) => (num === null || num <= 0 ? "–" : formatDuration(seconds / num));
  const busy = cost.engine_h > 0 ? cost.engine_busy_h / cost.engine_h : null;
  const rate = calls.error_rate === null ? "" : ` (${(calls.error_rate * 100).toFixed(2)} %)`;
  const lines = [
    { name: "CPU time", seconds: cost.cpu_s, note: cost.cpu_s > 0 ? "workers, engines, trainer, sandboxes" : "not recorded for this run" },
    { name: "Sandboxes", seconds: cost.sandbox_h * 3600, note: "from creation to end" },
    { name: "Engines", seconds: cost.engine_h * 3600, note: `with an attempt for ${formatShare(busy)} of it` },
  ];
  const rows = (
    <>
      <thead>
        <tr>
          <th scope="col">used</th><th scope="col">hours</th><th scope="col">per trained trajectory</th><th scope="col">per point of pass@1</th>
        </tr>
      </thead>
      <tbody>
        {lines.map(({ name, seconds, note }) => (
          <tr key={name} title={note}>
            <th scope="row">{name}</th><td>{formatNumber(seconds / 3600)}</td><td>{per(seconds, cost.trained)}</td><td>{per(seconds, cost.points)}</td>
          </tr>
        ))}
      </tbody>
    </>
  );
  return (
    <ChartFrame
      title="Cost and calls"
      note={`${formatCount(cost.trained)} trajectories trained${cost.points === null ? "" : `, ${cost.points < 0 ? "−" : "+"}${Math.abs(cost.points).toFixed(1)} points of pass@1`}`}
      twin={<table>{rows}</table>}
    >
      <ScrollRegion className={classes.scroll} label="Cost, table">
        <table className={classes.table}>{rows}</table>
      </ScrollRegion>
      <p className={classes.sentence}>
        Engines had an attempt for {formatShare(busy)} of their time. {formatCount(calls.errors)} of {formatCount(calls.calls)} model calls failed{rate}:
        the turns of all attempts and the calls that gave none.
      </p>
    </ChartFrame>
  );
}
