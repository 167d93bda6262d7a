import { Button, Group, Tooltip } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { checkpointsQuery, resumesQuery, runQuery } from "../../api/runs";
import type { Checkpoint, TrainerLife, RunDetail } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { StatusBadge } from "../../components/StatusBadge";
import { Time } from "../../components/Time";
import { ABSENT, formatBytes, formatCount, formatDuration, formatNumber, formatShare } from "../../lib/format";
import type { Face } from "../../lib/status";
import { RunCommandButton } from "../runs/RunActions";
import classes from "./CheckpointsTab.module.css";

const route = getRouteApi("/shell/runs/$run/checkpoints");

const STATUS: Record<Checkpoint["status"], Face> = {
  writing: { label: "Writing", tone: "running", icon: "half", meaning: "Being written." },
  complete: { label: "Complete", tone: "solved", icon: "check", meaning: "Whole: a run can go on from it." },
  pruned: { label: "Pruned", tone: "cancelled", icon: "slash", meaning: "Its files are gone; newer ones are kept." },
  corrupt: { label: "Corrupt", tone: "failed", icon: "alert", meaning: "It does not match its manifest and was set aside." },
};

/** What the run can go on from, and the lives that its trainer had. */
export function CheckpointsTab() {
  const { run: id } = route.useParams();
  const { data: run } = useSuspenseQuery(runQuery(id));
  const { data: checkpoints } = useSuspenseQuery(checkpointsQuery(id));
  const { data: resumes } = useSuspenseQuery(resumesQuery(id));
  return (
    <>
      <Group mb="md" gap="sm">
        <RunCommandButton run={run} command="checkpoint" />
        <RunCommandButton run={run} command="resume" label="Resume from newest" />
        <CopyAs path={`/api/v1/runs/${id}/checkpoints`} cli={`longtail runs checkpoints ${id}`} />
      </Group>
      <section aria-label="Checkpoints" className={classes.part}>
        <h2>Checkpoints</h2>
        <p className={classes.lead}>{policyOf(checkpoints)}</p>
        <DataTable
          label="Checkpoints" columns={COLUMNS(run)} rows={checkpoints} rowKey={(row) => row.id}
          empty={
            <EmptyState title="No checkpoint yet" command={`longtail runs checkpoint ${id}`}>
              One is written every few steps of an rl stage, at its end, and when somebody asks for one.
            </EmptyState>
          }
        />
      </section>
      <section aria-label="Resumes" className={classes.part}>
        <h2>Resumes</h2>
        <DataTable
          label="Resumes" columns={RESUME_COLUMNS} rows={resumes} rowKey={(row) => row.resume}
          empty={<p className={classes.lead}>The trainer has had one life: nothing was resumed.</p>}
        />
      </section>
    </>
  );
}

function policyOf(checkpoints: readonly Checkpoint[]): string {
  const kept = checkpoints.filter((one) => one.status === "complete");
  const bytes = kept.reduce((sum, one) => sum + one.num_bytes, 0);
  const [rule] = kept.flatMap((one) => /^newest \d+/.exec(one.kept_by) ?? []);
  const policy = rule === undefined ? "" : `; the ${rule} of a stage are kept`;
  return `${formatCount(kept.length)} of ${formatCount(checkpoints.length)} are there, ${formatBytes(bytes)}${policy}.`;
}

const COLUMNS = (run: RunDetail): Column<Checkpoint>[] => [
  { id: "step", header: "Step", width: 56, align: "right", cell: (row) => formatCount(row.step), sortValue: (row) => row.step },
  { id: "stage", header: "Stage", width: 108, cell: (row) => row.stage },
  { id: "resume", header: "Resume", width: 72, align: "right", cell: (row) => row.resume },
  { id: "version", header: "Weights", width: 72, align: "right", cell: (row) => `v${row.weight_version}` },
  { id: "status", header: "State", width: 112, cell: (row) => <StatusBadge face={STATUS[row.status]} /> },
  { id: "created", header: "Written", width: 108, align: "right", cell: (row) => <Time at={row.created_at} /> },
  { id: "size", header: "Size", width: 76, align: "right", cell: (row) => formatBytes(row.num_bytes), sortValue: (row) => row.num_bytes },
  {
    id: "reward", header: "Reward", unit: "10-step mean", width: 144, align: "right", cell: (row) => formatNumber(row.reward_mean_10),
    sortValue: (row) => row.reward_mean_10, meaning: "Mean reward of the valid trajectories of the ten steps that end here",
  },
  {
    id: "solve_rate", header: "Solve rate", width: 116, align: "right",
    cell: (row) => (row.solve_rate === null ? ABSENT : `${row.solve_rate.stage} ${formatShare(row.solve_rate.pass_at_1)}`),
    meaning: "pass@1 of the evaluation at these weights; invalid attempts count as unsolved",
  },
  { id: "kept", header: "Kept as", width: 140, cell: (row) => row.kept_by || ABSENT },
  { id: "used", header: "Used by", width: 104, cell: (row) => <UsedBy row={row} /> },
  { id: "clone", header: "", width: 128, cell: (row) => <CloneButton run={run.id} row={row} /> },
];

function UsedBy({ row }: { row: Checkpoint }) {
  const parts = [
    ...row.resumes.map((resume) => <span key={`resume ${resume}`}>resume {resume}</span>),
    ...row.runs.map((run) => (
      <Link key={run.id} to="/runs/$run/overview" params={{ run: run.id }}>
        {run.name}
      </Link>
    )),
  ];
  return parts.length === 0 ? <>{ABSENT}</> : <span className={classes.used}>{parts}</span>;
}

function CloneButton({ run, row }: { run: number; row: Checkpoint }) {
  const label = `Clone from here: step ${row.step}`;
  if (row.why_no_start === "") {
    return (
      <Button
        variant="default" size="compact-xs" aria-label={label}
        renderRoot={(props) => <Link {...props} to="/runs/new" search={{ from_run: run, from_checkpoint: row.id }} />}
      >
        Clone from here
      </Button>
    );
  }
  return (
    <Tooltip label={row.why_no_start} events={{ hover: true, focus: true, touch: true }}>
      <Button variant="default" size="compact-xs" aria-label={label} aria-disabled data-disabled>
        Clone from here
      </Button>
    </Tooltip>
  );
}

const RESUME_COLUMNS: Column<TrainerLife>[] = [
  { id: "resume", header: "Resume", width: 72, align: "right", cell: (row) => row.resume },
  { id: "at", header: "At", width: 124, align: "right", cell: (row) => <Time at={row.at} /> },
  { id: "stage", header: "Stage", width: 116, cell: (row) => row.stage ?? ABSENT },
  { id: "after", header: "Goes on after step", width: 140, align: "right", cell: (row) => formatCount(row.after_step) },
  {
    id: "superseded", header: "Superseded", unit: "steps", width: 132, align: "right", cell: (row) => formatCount(row.num_superseded),
    meaning: "Steps that were done and are undone by going back; they stay visible as ghosts",
  },
  {
    id: "downtime", header: "Downtime", width: 96, align: "right", cell: (row) => formatDuration(row.downtime_s),
    meaning: "From the last report of the life before to the first step of this one",
  },
  { id: "reason", header: "Why", width: 520, cell: (row) => <span title={row.reason}>{row.reason || ABSENT}</span> },
];
