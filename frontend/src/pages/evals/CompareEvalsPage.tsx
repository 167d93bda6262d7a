import { MultiSelect } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useDeferredValue, useMemo } from "react";

import { evalArmsQuery, evalCompareQuery } from "../../api/tasks";
import type { EvalArm, EvalCompare } from "../../api/types";
import { CopyAs } from "../../components/CopyAs";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Page } from "../../components/Page";
import { formatShare } from "../../lib/format";
import { topics } from "../../live/events";
import { useLive } from "../../live/LiveProvider";
import { useProject } from "../../api/me";
import { armName, armNames } from "./compare";
import classes from "./CompareEvals.module.css";
import { Compared } from "./Compared";

const route = getRouteApi("/shell/evals/compare");
const MAX_ARMS = 6;

/** Evaluations side by side over the same tasks. */
export function CompareEvalsPage() {
  const { arms } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: all } = useSuspenseQuery(evalArmsQuery());
  useLive(topics.runs(useProject().id));
  return (
    <Page
      title="Compare evaluations"
      lead="Arms × tasks: the same tasks, the same limits, other weights or another recipe."
      actions={arms === undefined ? undefined : <CopyAs path="/api/v1/evals/compare" query={{ arms }} />}
    >
      <div className={classes.page}>
        <MultiSelect
          className={classes.picker}
          label="Arms"
          size="sm"
          placeholder={arms === undefined ? "Choose two evaluations" : ""}
          data={all.map((arm) => ({ value: String(arm.id), label: optionLabel(arm) }))}
          value={arms?.split(",") ?? []}
          maxValues={MAX_ARMS}
          searchable
          clearable
          onChange={(chosen) => {
            navigate({ search: (old) => ({ ...old, arms: chosen.length === 0 ? undefined : chosen.join(",") }) }).catch(() => undefined);
          }}
        />
        <p className={classes.note}>Up to {MAX_ARMS}, in the order in which they are compared; the first is what the others are held against.</p>
        {arms === undefined ? <Nothing hasArms={all.length > 0} /> : <Chosen arms={arms} />}
      </div>
    </Page>
  );
}

function optionLabel(arm: EvalArm): string {
  const rate = arm.pass_at_1 === null ? arm.status : formatShare(arm.pass_at_1.mean);
  return `${armName(arm)} · run ${arm.run}${arm.weight_version === null ? "" : ` · v${arm.weight_version}`} · ${rate}${arm.is_demo ? " · demo data" : ""}`;
}

function Nothing({ hasArms }: { hasArms: boolean }) {
  return hasArms ? (
    <EmptyState title="No arm is chosen">Choose two or more evaluations above; those of one run are linked from its Evaluations tab.</EmptyState>
  ) : (
    <EmptyState title="No evaluations yet" command="longtail runs launch recipes/miniature.yaml">
      An evaluation is a stage of a recipe. Launch one that has some:
    </EmptyState>
  );
}

function Chosen({ arms }: { arms: string }) {
  const { data } = useSuspenseQuery(evalCompareQuery(useDeferredValue(arms)));
  if (data.differences.length > 0) return <Refused found={data} />;
  if (data.comparison === null) return <EmptyState title="Nothing to compare yet">One of the arms has no attempt that ended.</EmptyState>;
  return <Compared comparison={data.comparison} />;
}

type Difference = EvalCompare["differences"][number];

/** What the arms were measured with is not the same, so a difference between them would mean nothing. */
function Refused({ found }: { found: EvalCompare }) {
  const columns = useMemo<Column<Difference>[]>(
    () => [
      { id: "field", header: "Frozen setting", width: 220, cell: (row) => <code>{row.field}</code> },
      ...armNames(found.arms).map(
        (name, index): Column<Difference> => ({ id: String(found.arms[index]?.id ?? index), header: name, width: 240, cell: (row) => <span title={row.values[index]}>{row.values[index]}</span> }),
      ),
    ],
    [found.arms],
  );
  return (
    <section className={classes.refused} aria-labelledby="refused">
      <h2 id="refused">These evaluations cannot be compared</h2>
      <p className={classes.note}>They were not measured with the same settings, so a difference between them would say nothing about the weights. Take an arm out, or choose ones that agree in these:</p>
      <DataTable label="What differs" columns={columns} rows={found.differences} rowKey={(row) => row.field} empty={null} />
    </section>
  );
}
