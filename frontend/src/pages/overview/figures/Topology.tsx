import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";

import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { formatCount, formatDuration, formatShare, words } from "../../../lib/format";
import { STEP_STATUS } from "../../../lib/status";
import classes from "./Topology.module.css";

type Line = { label: string; value: string };
type Place = { key: string; title: string; role: string; to: "groups" | "sandboxes" | "engines" | "steps" | "checkpoints" | "trajectories"; lines: Line[] };
/** What flows from one place to the next. */
type Flow = { label: string; isTwoWay?: boolean; isBottleneck: boolean };

/** What is where now, and which flow the rest waits for (article, figure 2). */
export function Topology({ run, overview }: { run: number; overview: Overview }) {
  const places = placesOf(overview);
  const flows = flowsOf(overview);
  const { lag } = overview.topology.engines;
  return (
    <ChartFrame title="Topology" note="what is where; each place opens its page" twin={<Twin places={places} flows={flows} />}>
      <div className={classes.flow}>
        {places.map((place, index) => {
          const flow = flows[index];
          return (
            <Fragment key={place.key}>
              <Link to={`/runs/$run/${place.to}`} params={{ run }} className={classes.place} style={{ borderTopColor: `var(${place.role})` }}>
                <span className={classes.title}>{place.title}</span>
                {place.lines.map(({ label, value }) => (
                  <span key={label} className={classes.line}>
                    <span>{label}</span> <b>{value}</b>
                  </span>
                ))}
              </Link>
              {flow !== undefined && <Edge {...flow} />}
            </Fragment>
          );
        })}
        <div className={classes.back}>
          <span>new weights to the engines{lag > 0 ? `, ${lag} version${lag > 1 ? "s" : ""} behind` : ""}</span>
        </div>
      </div>
    </ChartFrame>
  );
}

function Edge({ label, isTwoWay = false, isBottleneck }: Flow) {
  return (
    <div className={classes.edge} data-bottleneck={isBottleneck}>
      <span className={classes.label}>{label}</span>
      <svg width="56" height="12" viewBox="0 0 56 12" aria-hidden="true" className={classes.arrow}>
        <path d={`${isTwoWay ? "M7 2 2 6l5 4M2 6" : "M0 6"}H54M49 2l5 4-5 4`} fill="none" stroke="currentColor" strokeWidth={isBottleneck ? 2.5 : 1.5} />
      </svg>
      {isBottleneck && <span className={classes.why}>bottleneck</span>}
    </div>
  );
}

export function flowsOf({ verdict, balance, calls }: Pick<Overview, "verdict" | "balance" | "calls">): Flow[] {
  const isRollout = verdict.bound === "rollout";
  return [
    { label: "tasks", isBottleneck: false },
    { label: `${formatCount(calls.calls)} calls`, isTwoWay: true, isBottleneck: isRollout },
    { label: `${formatCount(balance.produced_per_h)} /h`, isBottleneck: isRollout },
    { label: `${formatCount(balance.consumed_per_h)} /h`, isBottleneck: verdict.bound === "trainer" },
    { label: "publish", isBottleneck: false },
  ];
}

function placesOf({ topology, buffer, calls }: Overview): Place[] {
  const { engines, trainer } = topology;
  const line = (label: string, value: string): Line => ({ label, value });
  return [
    {
      key: "prompts", title: "Tasks", role: "--ink-3", to: "groups",
      lines: [line("groups open", formatCount(buffer.num_open)), line("attempts queued", formatCount(topology.queued))],
    },
    {
      key: "sandboxes", title: "Sandboxes", role: "--role-sandbox", to: "sandboxes",
      lines: [
        line("in flight", `${formatCount(topology.in_flight)} / ${formatCount(topology.max_in_flight)}`),
        ...topology.sandboxes.map(({ name, num }) => line(name, formatCount(num))),
      ],
    },
    {
      key: "engines", title: "Engines", role: "--role-llm", to: "engines",
      lines: [
        line("serving", `${formatCount(engines.num_serving)} / ${formatCount(engines.num)}`),
        line("running", formatCount(engines.running)),
        line("queue", formatCount(engines.queued)),
        line("KV max", formatShare(engines.kv_max)),
        line("call errors", calls.error_rate === null ? "–" : `${(calls.error_rate * 100).toFixed(2)} %`),
      ],
    },
    {
      key: "buffer", title: "Buffer", role: "--role-rollout", to: "groups",
      lines: [
        line("groups ready", buffer.capacity === null ? formatCount(buffer.num_ready) : `${formatCount(buffer.num_ready)} / ${formatCount(buffer.capacity)}`),
        line("oldest", formatDuration(buffer.oldest_s)),
        ...topology.dropped.map(({ name, num }) => line(`dropped ${words(name)}`, formatCount(num))),
      ],
    },
    {
      key: "trainer", title: "Trainer", role: "--role-trainer", to: "steps",
      lines: [line("step", formatCount(trainer.step)), line("phase", trainer.phase === null ? "–" : STEP_STATUS[trainer.phase].label.toLowerCase())],
    },
    {
      key: "weights", title: "Weights", role: "--role-trainer", to: "checkpoints",
      lines: [line("version", `v${trainer.weight_version}`), line("buffer lag", buffer.oldest_lag === null ? "–" : `${buffer.oldest_lag}`)],
    },
  ];
}

function Twin({ places, flows }: { places: readonly Place[]; flows: readonly Flow[] }) {
  const cells = (name: string, label: string, value: ReactNode) => (
    <tr key={name + label}>
      <td>{name}</td>
      <td>{label}</td>
      <td>{value}</td>
    </tr>
  );
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">place</th>
          <th scope="col">figure</th>
          <th scope="col">now</th>
        </tr>
      </thead>
      <tbody>
        {places.flatMap((place, index) => {
          const flow = flows[index];
          return [
            ...place.lines.map(({ label, value }) => cells(place.title, label, value)),
            ...(flow === undefined ? [] : [cells(`${place.title} → ${places[index + 1]?.title ?? ""}`, flow.label, flow.isBottleneck ? "bottleneck" : "")]),
          ];
        })}
      </tbody>
    </table>
  );
}
