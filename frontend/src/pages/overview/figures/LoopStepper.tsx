import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { formatCount, formatDuration, formatNumber } from "../../../lib/format";
import classes from "./LoopStepper.module.css";

type Stop = { title: string; color: string; text: string };

/** One trajectory as a loop: how often and how long each part, then what it came to (article, figure 1). */
export function LoopStepper({ loop }: { loop: Overview["loop"] }) {
  const stops: Stop[] = [
    { title: "Issue", color: "--ink-3", text: `${formatCount(loop.trajectories)} trajectories` },
    { title: "Sandbox", color: "--role-sandbox", text: `${formatDuration(loop.start_s)} to start` },
  ];
  const rewards: [string, number, string][] = [
    ["solved", loop.solved, "solved"], ["unsolved", loop.unsolved, "unsolved"], ["invalid", loop.invalid, "invalid"],
    ["cancelled", loop.cancelled, "cancelled"], ["running", loop.running, "running"],
  ];
  return (
    <ChartFrame
      title="The loop of a trajectory" note="means over completed attempts of all stages"
      twin={<Twin loop={loop} />}
    >
      <ol className={classes.loop}>
        {stops.map((stop) => <StopBox key={stop.title} {...stop} />)}
        <li className={classes.turns}>
          <span className={classes.repeat}>× {formatNumber(loop.mean_turns)} turns</span>
          <div className={classes.pair}>
            <div className={classes.box} style={{ borderTopColor: "var(--role-llm)" }}>
              <b>LLM</b>
              <span>{formatDuration(loop.llm_s_per_turn)} a turn</span>
            </div>
            <svg width="28" height="24" viewBox="0 0 28 24" aria-label="and back" role="img">
              <path d="M2 8h22m-4-4 4 4-4 4M26 17H4m4-4-4 4 4 4" fill="none" stroke="currentColor" strokeWidth="1.5" />
            </svg>
            <div className={classes.box} style={{ borderTopColor: "var(--role-rollout)" }}>
              <b>Shell</b>
              <span>{formatDuration(loop.exec_s_per_turn)} a turn</span>
            </div>
          </div>
        </li>
        <StopBox title="Tests" color="--role-sandbox" text={`${formatDuration(loop.verify_s)}, once`} />
        <li className={classes.box} style={{ borderTopColor: "var(--tone-solved)" }}>
          <b>Reward</b>
          {rewards.filter(([, num], index) => num > 0 || index < 2).map(([name, num, tone]) => (
            <span key={name} className={classes.outcome} data-tone={tone}>
              <i aria-hidden="true" /> {formatCount(num)} {name}
            </span>
          ))}
        </li>
      </ol>
    </ChartFrame>
  );
}

function StopBox({ title, color, text }: Stop) {
  return (
    <li className={classes.box} style={{ borderTopColor: `var(${color})` }}>
      <b>{title}</b>
      <span>{text}</span>
    </li>
  );
}

function Twin({ loop }: { loop: Overview["loop"] }) {
  const rows: [string, string][] = [
    ["trajectories", formatCount(loop.trajectories)], ["turns, mean", formatNumber(loop.mean_turns)], ["sandbox start and setup", formatDuration(loop.start_s)],
    ["LLM, a turn", formatDuration(loop.llm_s_per_turn)], ["shell, a turn", formatDuration(loop.exec_s_per_turn)], ["tests", formatDuration(loop.verify_s)],
    ["solved", formatCount(loop.solved)], ["unsolved", formatCount(loop.unsolved)], ["invalid (no reward)", formatCount(loop.invalid)],
    ["cancelled", formatCount(loop.cancelled)], ["running", formatCount(loop.running)],
  ];
  return (
    <table>
      <thead>
        <tr><th scope="col">part</th><th scope="col">value</th></tr>
      </thead>
      <tbody>
        {rows.map(([name, value]) => <tr key={name}><td>{name}</td><td>{value}</td></tr>)}
      </tbody>
    </table>
  );
}
