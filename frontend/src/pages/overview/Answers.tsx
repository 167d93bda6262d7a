import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { MetricSeries, Overview, RunDetail } from "../../api/types";
import { Icon } from "../../components/Icon";
import { Ago, Elapsed } from "../../components/Time";
import { formatCount, formatDuration, formatNumber, formatShare } from "../../lib/format";
import { currentStage, stageProgress } from "../../lib/progress";
import { readValue } from "../../lib/series";
import { STEP_STATUS } from "../../lib/status";
import classes from "./Answers.module.css";
import { CHECK_NAMES, type Finding, findings } from "./findings";
import { rewardTrend, solveTrend } from "./learning";

type Props = { run: RunDetail; overview: Overview; series: readonly MetricSeries[]; maxGradNorm: number };

/** Is it alive, what does it wait for, does it learn, what is wrong: four answers side by side. */
export function Answers({ run, overview, series, maxGradNorm }: Props) {
  return (
    <section className={classes.answers} aria-label="At a glance">
      <Alive run={run} overview={overview} />
      <Waits run={run} overview={overview} />
      <Learns run={run} series={series} />
      <Wrong run={run.id} found={findings({ run, overview, series, maxGradNorm })} />
    </section>
  );
}

function Answer({ title, lead, children }: { title: string; lead: ReactNode; children: ReactNode }) {
  return (
    <div className={classes.answer}>
      <h2>{title}</h2>
      <p className={classes.lead}>{lead}</p>
      {children}
    </div>
  );
}

function Facts({ children }: { children: ReactNode }) {
  return <dl className={classes.facts}>{children}</dl>;
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Alive({ run, overview }: { run: RunDetail; overview: Overview }) {
  const stage = currentStage(run.stages);
  const { trainer, in_flight, max_in_flight, queued } = overview.topology;
  const isOver = run.finished_at !== null;
  return (
    <Answer
      title="Is it alive?"
      lead={
        isOver ? (
          <>Ended <Ago at={run.finished_at} /></>
        ) : run.started_at === null ? (
          "Not started yet"
        ) : (
          <>{stage?.name ?? "Between stages"}, running for <Elapsed from={stage?.started_at ?? run.started_at} to={null} /></>
        )
      }
    >
      <Facts>
        {stage !== undefined && <Fact label="Stage">{stage.name} · {stageProgress(stage)}</Fact>}
        <Fact label="In flight">{formatCount(in_flight)} of {formatCount(max_in_flight)}{queued > 0 && `, ${formatCount(queued)} queued`}</Fact>
        <Fact label={isOver ? "Last step" : "Step"}>
          {trainer.step === null || trainer.phase === null ? "none yet" : (
            <>
              {trainer.step} · {STEP_STATUS[trainer.phase].label.toLowerCase()}
              {!isOver && <> <Ago at={trainer.since} /></>}
            </>
          )}
        </Fact>
      </Facts>
    </Answer>
  );
}

const BOUND: Record<Overview["verdict"]["bound"], string> = {
  rollout: "Rollout-bound", trainer: "Trainer-bound", balanced: "Balanced", none: "No verdict yet",
};

function Waits({ run, overview: { verdict, balance, buffer } }: { run: RunDetail; overview: Overview }) {
  return (
    <Answer title="What does it wait for?" lead={BOUND[verdict.bound]}>
      <p className={classes.sentence}>{run.wait_sentence || verdict.sentence}</p>
      <Facts>
        {run.wait_sentence !== "" && verdict.num_steps > 0 && (
          <Fact label="Trainer waits">{formatShare(verdict.wait_share)} of the last {verdict.num_steps} steps</Fact>
        )}
        <Fact label="Produced / consumed">{formatCount(balance.produced_per_h)} / {formatCount(balance.consumed_per_h)} per h</Fact>
        <Fact label="Buffer">
          {formatCount(buffer.num_ready)} ready{buffer.oldest_s !== null && `, oldest ${formatDuration(buffer.oldest_s)}`}, {formatCount(buffer.num_open)} open
        </Fact>
      </Facts>
    </Answer>
  );
}

function Learns({ run, series }: { run: RunDetail; series: readonly MetricSeries[] }) {
  const points = series.find(({ name }) => name === "reward/mean")?.points ?? [];
  const reward = rewardTrend(points.map(({ resume, step, value }) => ({ resume, step, value: readValue(value) })));
  const solve = solveTrend(run.stages);
  const paired = solve?.paired ?? null;
  return (
    <Answer
      title="Does it learn?"
      lead={
        solve === null ? (reward === null ? "Too early to say" : `Reward ${formatNumber(reward.first)} → ${formatNumber(reward.last)}`)
          : solve.first.stage === solve.last.stage ? `pass@1 ${formatShare(solve.last.value)}`
          : `pass@1 ${formatShare(solve.first.value)} → ${formatShare(solve.last.value)}`
      }
    >
      {paired !== null && (
        <p className={classes.sentence}>
          {signed(paired.mean)} points [{signed(paired.low)}, {signed(paired.high)}] from {paired.against} to {solve?.last.stage} on the same tasks:{" "}
          {paired.low > 0 ? "it solves more" : paired.high < 0 ? "it solves fewer" : "not told apart"}.
        </p>
      )}
      <Facts>
        <Fact label="Reward, 10-step mean">
          {reward === null ? "fewer than 20 steps" : `${formatNumber(reward.first)} → ${formatNumber(reward.last)} in ${formatCount(reward.numSteps)} steps`}
        </Fact>
        <Fact label="Held-out tasks">{solve === null ? "not evaluated yet" : `after ${solve.last.stage}`}</Fact>
      </Facts>
    </Answer>
  );
}

function signed(value: number): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(1)}`;
}

const MOST = 4;

function Wrong({ run, found }: { run: number; found: Finding[] }) {
  const errors = found.filter(({ level }) => level === "error").length;
  return (
    <Answer
      title="What is wrong?"
      lead={found.length === 0 ? "Nothing found" : `${errors > 0 ? `${errors} problem${errors > 1 ? "s" : ""}` : ""}${errors > 0 && found.length > errors ? ", " : ""}${found.length > errors ? `${found.length - errors} warning${found.length - errors > 1 ? "s" : ""}` : ""}`}
    >
      {found.length === 0 ? (
        <p className={classes.sentence} title={CHECK_NAMES.join(", ")}>
          {CHECK_NAMES.length} checks passed: failures, calls, engines, gradients, log-probs, tail, dropped work.
        </p>
      ) : (
        <ul className={classes.findings}>
          {found.slice(0, MOST).map(({ level, sentence, tab }) => (
            <li key={sentence} data-level={level}>
              <Icon name="alert" size={12} />
              <Link to={`/runs/$run/${tab}`} params={{ run }}>{sentence}</Link>
            </li>
          ))}
          {found.length > MOST && <li className={classes.more}>and {found.length - MOST} more</li>}
        </ul>
      )}
    </Answer>
  );
}
