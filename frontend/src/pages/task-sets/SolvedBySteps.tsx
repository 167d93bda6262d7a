import type { TaskDetail } from "../../api/types";
import { ChartFrame } from "../../components/ChartFrame";
import { useWidth } from "../../components/useWidth";
import { formatCount, formatShare } from "../../lib/format";
import classes from "./TaskSets.module.css";

const HEIGHT = 160;
const LEFT = 44;
const FOOT = 34;
/** Labels of steps stand apart. */
const LABEL_PX = 48;

type Step = TaskDetail["steps"][number];

/** How the solve rate of one task moves as training goes on; a bucket without a trajectory has no bar, not a zero. */
export function SolvedBySteps({ steps }: { steps: readonly Step[] }) {
  const [host, width] = useWidth<HTMLDivElement>();
  const total = steps.reduce((sum, step) => sum + step.num_trajectories, 0);
  const first = steps[0];
  const plot = HEIGHT - FOOT - 8;
  const slot = (width - LEFT) / Math.max(1, steps.length);
  const every = Math.ceil(LABEL_PX / slot);
  const y = (share: number) => 8 + plot * (1 - share);
  const note =
    first === undefined
      ? "over valid trajectories that steps trained on"
      : `run ${first.run}, ${first.stage}: over ${formatCount(total)} valid trajectories that its steps trained on; their number below each bar`;
  return (
    <ChartFrame title="Solve rate by step" note={note} twin={<Twin steps={steps} />}>
      <div ref={host}>
        {first === undefined || total === 0 ? (
          <div className={classes.nothing}>No step has trained on it yet</div>
        ) : (
          <svg
            className={classes.svg} width={width} height={HEIGHT} role="img"
            aria-label={`Solve rate by step: ${steps.map((step) => `steps ${label(step)} ${rate(step)} of ${step.num_trajectories}`).join("; ")}`}
          >
            {[0, 0.5, 1].map((share) => (
              <g key={share}>
                <line x1={LEFT} x2={width} y1={y(share)} y2={y(share)} className={classes.grid} />
                <text x={LEFT - 8} y={y(share) + 4} textAnchor="end">
                  {share * 100} %
                </text>
              </g>
            ))}
            {steps.map((step, index) => {
              const x = LEFT + index * slot;
              const share = step.num_trajectories === 0 ? 0 : step.num_solved / step.num_trajectories;
              return (
                <g key={step.first_step}>
                  <title>{`steps ${label(step)}: ${rate(step)} of ${step.num_trajectories} valid trajectories`}</title>
                  {step.num_trajectories > 0 && (
                    <rect x={x + slot * 0.15} width={slot * 0.7} y={y(share) - 1} height={plot - (y(share) - 8) + 1} fill="var(--tone-solved)" />
                  )}
                  {index % every === 0 && (
                    <text x={x + slot / 2} y={HEIGHT - 18} textAnchor="middle">
                      {label(step)}
                    </text>
                  )}
                  <text x={x + slot / 2} y={HEIGHT - 4} textAnchor="middle">
                    {step.num_trajectories}
                  </text>
                </g>
              );
            })}
          </svg>
        )}
      </div>
    </ChartFrame>
  );
}

const label = ({ first_step: first, last_step: last }: Step) => (first === last ? String(first) : `${first}–${last}`);
const rate = ({ num_trajectories: num, num_solved: solved }: Step) => (num === 0 ? "none" : formatShare(solved / num));

function Twin({ steps }: { steps: readonly Step[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">steps</th>
          <th scope="col">solve rate</th>
          <th scope="col">solved</th>
          <th scope="col">valid trajectories</th>
        </tr>
      </thead>
      <tbody>
        {steps.map((step) => (
          <tr key={step.first_step}>
            <td>{label(step)}</td>
            <td>{rate(step)}</td>
            <td>{formatCount(step.num_solved)}</td>
            <td>{formatCount(step.num_trajectories)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
