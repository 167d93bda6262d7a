import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { useWidth } from "../../../components/useWidth";
import { formatCount, formatDuration } from "../../../lib/format";
import classes from "./figures.module.css";
import { logScale } from "./logScale";

type Driver = Overview["drivers"][number];

const COLORS = ["--role-sandbox", "--role-llm", "--role-rollout", "--role-trainer"] as const;
/** Of the stages, those that the sandbox side takes part in. */
const STAGES = ["start", "setup", "exec", "verify", "teardown"] as const;
const LABEL: Record<(typeof STAGES)[number], string> = { start: "start", setup: "setup", exec: "shell", verify: "tests", teardown: "teardown" };
const ROW_PX = 30;
const LEFT_PX = 64;

/** Median and quartiles of each stage, a dot a driver (article, figure 7, bottom); how far each driver was taken (figure 6, bottom). */
export function Drivers({ drivers, limit }: { drivers: readonly Driver[]; limit: number }) {
  const [host, width] = useWidth<HTMLDivElement>();
  const rows = STAGES.filter((stage) => drivers.some((driver) => driver.stages.some((one) => one.stage === stage)));
  const shown = drivers.flatMap(({ stages }) => stages.filter((one) => rows.some((row) => row === one.stage)));
  const scale = logScale(shown.flatMap(({ q25_s, q75_s }) => [q25_s, q75_s]));
  const x = (seconds: number) => LEFT_PX + scale.place(seconds) * (width - LEFT_PX - 24);
  const height = rows.length * ROW_PX + 22;
  return (
    <ChartFrame
      title="Sandbox drivers" note="median and quartiles, seconds on a log axis; all sandboxes of the run"
      legend={drivers.map(({ driver }, index) => ({ label: driver, color: `var(${COLORS[index % COLORS.length] ?? "--ink"})`, mark: "dots" as const }))}
      twin={<Twin drivers={drivers} />}
    >
      <div ref={host} className={classes.host}>
        {drivers.length === 0 ? <p className={classes.nothing}>No sandbox yet</p> : (
          <>
            <svg width={width} height={height} role="img" aria-label={drivers.map(({ driver, stages }) => `${driver}: ${stages.map((one) => `${one.stage} ${formatDuration(one.median_s)}`).join(", ")}`).join("; ")}>
              {scale.ticks.map((tick) => (
                <g key={tick}>
                  <line x1={x(tick)} x2={x(tick)} y1={0} y2={height - 20} className={classes.grid} />
                  <text x={x(tick)} y={height - 6} textAnchor="middle" className={classes.tick}>{formatDuration(tick)}</text>
                </g>
              ))}
              {rows.map((stage, row) => (
                <g key={stage}>
                  <text x={0} y={row * ROW_PX + ROW_PX / 2 + 4} className={classes.name}>{LABEL[stage]}</text>
                  {drivers.map(({ driver, stages }, index) => {
                    const one = stages.find((each) => each.stage === stage);
                    if (one === undefined) return null;
                    const y = row * ROW_PX + (ROW_PX / (drivers.length + 1)) * (index + 1);
                    const color = `var(${COLORS[index % COLORS.length] ?? "--ink"})`;
                    return (
                      <g key={driver} stroke={color}>
                        <title>{`${driver}, ${LABEL[stage]}: median ${formatDuration(one.median_s)}, quartiles ${formatDuration(one.q25_s)} to ${formatDuration(one.q75_s)}, ${formatCount(one.num)} sandboxes`}</title>
                        <path d={`M${x(one.q25_s)} ${y}H${x(one.q75_s)}M${x(one.q25_s)} ${y - 3}v6M${x(one.q75_s)} ${y - 3}v6`} strokeWidth="1.5" fill="none" />
                        <circle cx={x(one.median_s)} cy={y} r="4" fill={color} stroke="none" />
                      </g>
                    );
                  })}
                </g>
              ))}
            </svg>
            <table className={classes.table}>
              <thead>
                <tr>
                  <th scope="col">driver</th>
                  <th scope="col">sandboxes</th>
                  <th scope="col">most at once</th>
                  <th scope="col">allowed</th>
                </tr>
              </thead>
              <tbody>
                {drivers.map((one) => (
                  <tr key={one.driver}>
                    <th scope="row">{one.driver}</th>
                    <td>{formatCount(one.num_sandboxes)}</td>
                    <td>{formatCount(one.max_concurrent)}</td>
                    <td>{formatCount(limit)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </>
        )}
      </div>
    </ChartFrame>
  );
}

function Twin({ drivers }: { drivers: readonly Driver[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">driver</th><th scope="col">stage</th><th scope="col">sandboxes</th><th scope="col">25 % s</th><th scope="col">median s</th><th scope="col">75 % s</th>
        </tr>
      </thead>
      <tbody>
        {drivers.flatMap(({ driver, stages }) =>
          stages.map((one) => (
            <tr key={driver + one.stage}>
              <td>{driver}</td><td>{one.stage}</td><td>{formatCount(one.num)}</td><td>{one.q25_s.toFixed(3)}</td><td>{one.median_s.toFixed(3)}</td><td>{one.q75_s.toFixed(3)}</td>
            </tr>
          )),
        )}
      </tbody>
    </table>
  );
}
