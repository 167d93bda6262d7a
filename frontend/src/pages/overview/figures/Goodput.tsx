import type { Overview } from "../../../api/types";
import { ChartFrame } from "../../../components/ChartFrame";
import { ScrollRegion } from "../../../components/ScrollRegion";
import { formatCount, formatShare } from "../../../lib/format";
import classes from "./figures.module.css";
import { type Share, ShareBar } from "./ShareBar";

type Fate = Overview["fates"][number];

const FATE: Record<Fate["fate"], { label: string; color: string; why: string; isHatched?: boolean }> = {
  trained: { label: "trained", color: "var(--role-trainer)", why: "consumed with an advantage" },
  zero_advantage: { label: "zero advantage", color: "color-mix(in srgb, var(--role-trainer) 35%, var(--paper))", why: "consumed, but its group had one reward: no gradient" },
  waiting: { label: "in the buffer", color: "var(--tone-running)", why: "finished, not claimed by a step" },
  open: { label: "in flight", color: "color-mix(in srgb, var(--tone-running) 45%, var(--paper))", why: "not finished; recorded when it ends" },
  stale: { label: "stale", color: "var(--tone-unsolved)", why: "dropped: its tokens were too old" },
  released: { label: "released", color: "color-mix(in srgb, var(--tone-unsolved) 55%, var(--paper))", why: "cancelled when its group had enough" },
  superseded: { label: "superseded", color: "var(--role-rollout)", why: "of weights that a roll-back undid" },
  invalid: { label: "invalid", color: "var(--tone-invalid)", why: "failed by the infrastructure, or of a group with too few valid members", isHatched: true },
  cancelled: { label: "cancelled", color: "var(--role-other)", why: "the run was stopped" },
};
const ORDER = ["trained", "zero_advantage", "waiting", "open", "stale", "released", "superseded", "invalid", "cancelled"] as const;

/** What became of the sampled tokens: trained, and the waste by its reason. */
export function Goodput({ fates }: { fates: readonly Fate[] }) {
  const total = fates.reduce((sum, { tokens }) => sum + tokens, 0);
  const rows = ORDER.flatMap((fate) => fates.find((one) => one.fate === fate) ?? []).filter(({ trajectories, tokens }) => trajectories > 0 || tokens > 0);
  const trained = fates.find(({ fate }) => fate === "trained")?.tokens ?? 0;
  const parts: Share[] = rows.map(({ fate, tokens }) => ({ key: fate, share: total === 0 ? 0 : tokens / total, ...FATE[fate] }));
  return (
    <ChartFrame
      title="Goodput" note={`${formatShare(total === 0 ? null : trained / total)} of the sampled tokens of RL stages were trained`}
      twin={<Rows rows={rows} total={total} />}
    >
      {rows.length === 0 ? <p className={classes.nothing}>No RL trajectory yet</p> : (
        <>
          <ShareBar label="Sampled tokens" parts={parts} />
          <ScrollRegion className={classes.scroll} label="Goodput, table">
            <Rows rows={rows} total={total} hasSwatches />
          </ScrollRegion>
        </>
      )}
    </ChartFrame>
  );
}

function Rows({ rows, total, hasSwatches = false }: { rows: readonly Fate[]; total: number; hasSwatches?: boolean }) {
  const sum = (field: "trajectories" | "turns" | "tokens") => formatCount(rows.reduce((all, row) => all + row[field], 0));
  return (
    <table className={hasSwatches ? classes.table : undefined}>
      <thead>
        <tr>
          <th scope="col">fate</th><th scope="col">trajectories</th><th scope="col">turns</th><th scope="col">tokens</th><th scope="col">of tokens</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.fate} title={FATE[row.fate].why}>
            <th scope="row">
              {hasSwatches && (
                <span
                  className={classes.swatch} data-hatched={FATE[row.fate].isHatched === true}
                  style={FATE[row.fate].isHatched === true ? {} : { background: FATE[row.fate].color }}
                />
              )}
              {FATE[row.fate].label}
            </th>
            <td>{formatCount(row.trajectories)}</td>
            <td>{formatCount(row.turns)}</td>
            <td>{formatCount(row.tokens)}</td>
            <td>{formatShare(total === 0 ? null : row.tokens / total)}</td>
          </tr>
        ))}
        <tr>
          <th scope="row">all</th>
          <td>{sum("trajectories")}</td><td>{sum("turns")}</td><td>{sum("tokens")}</td><td />
        </tr>
      </tbody>
    </table>
  );
}
