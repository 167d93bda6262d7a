import { Link } from "@tanstack/react-router";

import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { Elapsed, Time } from "../../../components/Time";
import { formatCount } from "../../../lib/format";
import classes from "./figures.module.css";
import own from "./Lives.module.css";

type Life = Overview["lives"][number];

/** The lives of the trainer: which steps each made, and which of them count. */
export function Lives({ run, lives }: { run: number; lives: readonly Life[] }) {
  const last = Math.max(1, ...lives.map(({ last_step }) => last_step));
  return (
    <ChartFrame
      title="Resumes" note={`${lives.length > 0 ? lives.length - 1 : 0} after the first start`}
      legend={lives.length === 0 ? [] : [{ label: "done", color: "var(--role-trainer)", mark: "block" }, { label: "superseded", color: "color-mix(in srgb, var(--role-trainer) 30%, var(--paper))", mark: "block" }]}
      twin={<Rows lives={lives} />}
    >
      {lives.length === 0 ? <p className={classes.nothing}>No step yet</p> : (
        <ol className={own.lives}>
          {lives.map((life) => (
            <li key={life.resume}>
              <Link to="/runs/$run/steps" params={{ run }} search={{ resume: String(life.resume) }}>{life.resume === 0 ? "start" : `resume ${life.resume}`}</Link>
              <div className={own.track} role="img" aria-label={`steps ${life.first_step} to ${life.last_step}, ${life.num_superseded} superseded`}>
                <div
                  className={own.kept}
                  style={{ left: `${((life.first_step - 1) / last) * 100}%`, width: `${(life.num_done / last) * 100}%` }}
                />
                <div
                  className={own.ghost}
                  style={{ left: `${((life.first_step - 1 + life.num_done) / last) * 100}%`, width: `${((life.num_superseded + life.num_failed) / last) * 100}%` }}
                />
              </div>
              <span className={own.facts}>
                {life.first_step}–{life.last_step}, <Elapsed from={life.started_at} to={life.ended_at ?? life.started_at} />
              </span>
              {life.sentence !== "" && <p>{life.sentence}</p>}
            </li>
          ))}
        </ol>
      )}
    </ChartFrame>
  );
}

function Rows({ lives }: { lives: readonly Life[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">resume</th><th scope="col">began</th><th scope="col">first step</th><th scope="col">last step</th><th scope="col">done</th><th scope="col">superseded</th><th scope="col">failed</th>
        </tr>
      </thead>
      <tbody>
        {lives.map((life) => (
          <tr key={life.resume}>
            <td>{life.resume}</td><td><Time at={life.started_at} /></td><td>{life.first_step}</td><td>{life.last_step}</td>
            <td>{formatCount(life.num_done)}</td><td>{formatCount(life.num_superseded)}</td><td>{formatCount(life.num_failed)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
