import { useNavigate } from "@tanstack/react-router";

import type { Step } from "../../../api/types";
import { StackedBar } from "../../../components/StackedBar";
import { formatCount } from "../../../lib/format";

const PARTS = [
  { key: "update", label: "update", color: "var(--role-trainer)" },
  { key: "logprob", label: "log-prob", color: "color-mix(in srgb, var(--role-trainer) 45%, var(--paper))" },
  { key: "wait", label: "wait", color: "color-mix(in srgb, var(--role-rollout) 70%, var(--paper))" },
];
const PUBLISH = { key: "publish", label: "publish", color: "var(--role-llm)" };
/** More bars than this are too thin to tell apart; the Steps tab has them all. */
const WINDOW = 60;

/** What a step's time went to; publishing runs beside it (article, figure 4). */
export function StepBreakdown({ run, steps }: { run: number; steps: readonly Step[] }) {
  const navigate = useNavigate();
  const finished = steps.filter(({ status }) => status === "done" || status === "superseded");
  const shown = finished.slice(-WINDOW);
  const num = shown.filter(({ status }) => status === "done").length;
  return (
    <StackedBar
      title="Step breakdown"
      note={num === 0 ? "seconds" : `seconds; mean and p90 of the last ${formatCount(num)} steps`}
      parts={PARTS}
      lane={PUBLISH}
      onOpen={(bar) => {
        navigate({ to: "/runs/$run/steps", params: { run }, search: { step: bar.key } }).catch(() => undefined);
      }}
      bars={shown.map((step) => ({
        key: step.id,
        label: String(step.index),
        isGhost: step.status === "superseded",
        values: { wait: step.wait_s, logprob: step.logprob_s, update: step.update_s, publish: step.publish_s },
      }))}
    />
  );
}
