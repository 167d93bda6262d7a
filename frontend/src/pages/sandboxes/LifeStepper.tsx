import type { SandboxDetail } from "../../api/types";
import { Icon } from "../../components/Icon";
import { ABSENT, formatDuration } from "../../lib/format";
import { LIFE_STATE } from "../../lib/status";
import classes from "./LifeStepper.module.css";

const LABEL: Record<string, string> = {
  admit: "Admit", image: "Image", start: "Start", setup: "Set-up", exec: "Exec", collect: "Collect", verify: "Verify", teardown: "Teardown",
};
const MEANING: Record<string, string> = {
  admit: "The wait of its attempt for a slot.",
  image: "The task's files or image come to this machine.",
  start: "The driver starts the box.",
  setup: "The task's own preparation.",
  exec: "The agent's commands; model calls are apart.",
  collect: "What the agent changed is read out.",
  verify: "The hidden tests run.",
  teardown: "The box and all in it end.",
};

/** The life of a box from left to right, with the seconds of each step and where it failed. */
export function LifeStepper({ life }: { life: SandboxDetail["life"] }) {
  const longest = Math.max(...life.map((stage) => stage.seconds ?? 0), 1e-9);
  return (
    <ol className={classes.steps} aria-label="Life of the sandbox">
      {life.map(({ name, state, seconds }) => {
        const face = LIFE_STATE[state];
        return (
          <li key={name} className={classes.step} data-tone={face.tone} data-state={state} title={MEANING[name]}>
            <span className={classes.name}>
              <Icon name={face.icon} /> {LABEL[name] ?? name}
            </span>
            <span className={classes.time}>{seconds === null ? ABSENT : formatDuration(seconds)}</span>
            <span className={classes.bar} aria-hidden="true">
              <span style={{ width: `${((seconds ?? 0) / longest) * 100}%` }} />
            </span>
            <span className={classes.state}>{face.label}</span>
          </li>
        );
      })}
    </ol>
  );
}
