import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { type Sibling, siblingsQuery } from "../../api/inspector";
import { Lanes } from "../../components/Lanes";
import { Loading } from "../../components/Loading";
import { Reward } from "../../components/Reward";
import { StatusBadge } from "../../components/StatusBadge";
import { ABSENT, formatCount, formatDuration, formatNumber, words } from "../../lib/format";
import { OUTCOME, outcomeOf } from "../../lib/status";
import { stageSegments } from "../../lib/timeline";
import { Fault } from "./Fault";
import { inspectorRoute } from "./route";
import classes from "./SiblingsTab.module.css";
import type { TabProps } from "./tabs";

/** The other samples of the same task: what GRPO compares this one with. */
export function SiblingsTab({ trajectory }: TabProps) {
  const navigate = inspectorRoute.useNavigate();
  const query = useQuery(siblingsQuery(trajectory.id));
  if (query.isError) return <Fault query={query} />;
  if (query.data === undefined) return <Loading rows={8} />;
  const { members, run, group } = query.data;
  const zero = Math.min(...members.map((member) => Date.parse(member.created_at)));
  const since = (at: string | null) => (at === null ? null : (Date.parse(at) - zero) / 1000);
  const spans = members.map((member) => spanOf(member, since));
  const end = Math.max(1, ...spans.map((span) => span.to));
  const valid = members.filter((member) => member.reward !== null).length;

  return (
    <div className={classes.page}>
      <p className={classes.lead}>
        Group {group}: mean reward {formatNumber(query.data.reward_mean)}, deviation {formatNumber(query.data.reward_std)} over {valid} valid of {members.length} members.{" "}
        <Link to="/runs/$run/groups/$group" params={{ run, group }}>Compare them side by side</Link>
      </p>
      <div className={classes.scroller}>
        <table className={classes.members} aria-label="Members of the group">
          <thead>
            <tr>
              <th scope="col">Member</th>
              <th scope="col">Outcome</th>
              <th scope="col" data-align="right">Reward</th>
              <th scope="col" data-align="right">Advantage</th>
              <th scope="col" data-align="right">Turns</th>
              <th scope="col" data-align="right">Tokens</th>
              <th scope="col" data-align="right">Took</th>
              <th scope="col">Ended by</th>
            </tr>
          </thead>
          <tbody>
            {members.map((member, i) => (
              <tr key={member.id} data-own={member.id === trajectory.id}>
                <th scope="row">
                  <Link to="/trajectories/$trajectory" params={{ trajectory: member.id }} search={{ tab: "siblings" }}>{member.index}</Link>
                  {member.id === trajectory.id && " · this one"}
                </th>
                <td><StatusBadge face={OUTCOME[outcomeOf(member)]} /></td>
                <td data-align="right"><Reward trajectory={member} /></td>
                <td data-align="right">{formatNumber(member.advantage)}</td>
                <td data-align="right">{formatCount(member.num_turns)}</td>
                <td data-align="right">{formatCount(member.output_tokens)}</td>
                <td data-align="right">{formatDuration(spans[i]?.took)}</td>
                <td>{endOf(member)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Lanes
        label="The group on one axis" note="all members by their newest attempts; seconds from the first one’s opening; stages in order, not each turn"
        from={0} to={end}
        lanes={members.map((member, i) => ({
          key: member.id, label: `member ${member.index}`, note: OUTCOME[outcomeOf(member)].label, tone: OUTCOME[outcomeOf(member)].tone, segments: spans[i]?.segments ?? [],
        }))}
        onOpen={(key) => {
          navigate({ params: { trajectory: Number(key) }, search: { tab: "siblings" } }).catch(() => undefined);
        }}
      />
    </div>
  );
}

function spanOf(member: Sibling, since: (at: string | null) => number | null) {
  const opened = since(member.created_at) ?? 0;
  const started = since(member.started_at);
  if (started === null) return { to: opened, took: null, segments: [] };
  const running = Object.values(member.timings).reduce((sum, seconds) => sum + seconds, 0);
  const to = since(member.finished_at) ?? started + running;
  const queue = started - opened;
  return {
    to,
    took: to - started,
    segments: [
      ...(queue > 0 ? [{ from: opened, to: started, color: "--role-other", label: "queue", isHatched: true }] : []),
      ...stageSegments(member.timings, started, to - started),
    ],
  };
}

function endOf({ failure, stop_reason, attempt_status }: Sibling): string {
  if (failure !== null) return `${failure.stage}: ${words(failure.kind)}`;
  return stop_reason === "" ? (attempt_status ?? ABSENT) : words(stop_reason);
}
