import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { boxesQuery } from "../../api/inspector";
import { EmptyState } from "../../components/EmptyState";
import { Loading } from "../../components/Loading";
import { Stat, StatRow } from "../../components/Stat";
import { StatusBadge } from "../../components/StatusBadge";
import { Elapsed, Time } from "../../components/Time";
import { formatDuration } from "../../lib/format";
import { SANDBOX_STATUS } from "../../lib/status";
import { Fault } from "./Fault";
import classes from "./SandboxTab.module.css";
import type { TabProps } from "./tabs";

const STAGES = ["admit", "image", "start", "setup", "exec", "verify", "teardown"];

/** The box that the attempt lived in, and those of its other attempts. */
export function SandboxTab({ trajectory, attempt }: TabProps) {
  const query = useQuery(boxesQuery(trajectory.id));
  if (query.isError) return <Fault query={query} />;
  if (query.data === undefined) return <Loading rows={4} />;
  const boxes = query.data.toSorted((a, b) => Number(b.attempt === attempt.number) - Number(a.attempt === attempt.number));
  if (!boxes.some((box) => box.attempt === attempt.number)) {
    return <EmptyState title="No sandbox">Attempt {attempt.number} has none: it has not started, or it failed before a box was there.</EmptyState>;
  }
  return (
    <div className={classes.page}>
      {boxes.map((box) => (
        <section key={box.id} className={classes.box} data-own={box.attempt === attempt.number}>
          <header className={classes.head}>
            <h2>
              <Link to="/sandboxes/$sandbox" params={{ sandbox: box.id }}>{box.key}</Link>
            </h2>
            <StatusBadge face={SANDBOX_STATUS[box.status]} />
            <span>attempt {box.attempt}{box.attempt !== attempt.number && ", another one"}</span>
            <span>{box.driver}{box.level !== "" && `, ${box.level}`}</span>
            <span>worker {box.worker}</span>
            <span>created <Time at={box.created_at} />, lived <Elapsed from={box.created_at} to={box.finished_at} /></span>
          </header>
          <StatRow label={`Stages of ${box.key}`}>
            {STAGES.filter((stage) => box.timings[stage] !== undefined).map((stage) => (
              <Stat key={stage} label={stage} value={formatDuration(box.timings[stage])} />
            ))}
          </StatRow>
        </section>
      ))}
    </div>
  );
}
