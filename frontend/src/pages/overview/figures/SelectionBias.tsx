import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { ScrollRegion } from "../../../components/ScrollRegion";
import { formatCount, formatNumber } from "../../../lib/format";
import classes from "./figures.module.css";

type Row = Overview["selection"][number];

const WHO: Record<Row["population"], string> = {
  finished: "finished", consumed: "consumed", discarded: "discarded", waiting: "in the buffer",
};

/** Members are not missing at random: who was trained and who was not, in sums that add up. */
export function SelectionBias({ selection }: { selection: readonly Row[] }) {
  const rows = (
    <>
      <thead>
        <tr>
          <th scope="col">RL trajectories</th><th scope="col">number</th><th scope="col">turns</th><th scope="col">mean</th>
          <th scope="col">rewarded</th><th scope="col">reward</th><th scope="col">mean</th>
        </tr>
      </thead>
      <tbody>
        {selection.map((row) => (
          <tr key={row.population}>
            <th scope="row">{row.population === "finished" ? WHO.finished : `${row.population === "consumed" ? "= " : "+ "}${WHO[row.population]}`}</th>
            <td>{formatCount(row.num)}</td><td>{formatCount(row.sum_turns)}</td><td>{formatNumber(row.mean_turns)}</td>
            <td>{formatCount(row.num_valid)}</td><td>{formatNumber(row.sum_reward)}</td><td>{formatNumber(row.mean_reward)}</td>
          </tr>
        ))}
      </tbody>
    </>
  );
  return (
    <ChartFrame title="Selection bias" note="rewards over those that have one; an invalid one has none" twin={<table>{rows}</table>}>
      <ScrollRegion className={classes.scroll} label="Selection bias, table">
        <table className={classes.table}>{rows}</table>
      </ScrollRegion>
    </ChartFrame>
  );
}
