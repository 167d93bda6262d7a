/** The outline of an attempt: columns of the API as one row a turn, with what to look at first. */
import type { Skeleton } from "../api/inspector";

export type OutlineTurn = {
  index: number;
  offset_s: number;
  llm_s: number;
  queue_s: number | null;
  exec_s: number;
  prompt_tokens: number;
  output_tokens: number;
  exit_code: number | null;
  preview: string;
  isError: boolean;
  isTimeout: boolean;
  isCut: boolean;
  isRepeated: boolean;
  hasNoAction: boolean;
  isFirstEdit: boolean;
  isFirstTest: boolean;
  isSubmit: boolean;
};

export function outlineTurns(skeleton: Skeleton): OutlineTurn[] {
  const { turns } = skeleton;
  const errors = new Set(skeleton.errors);
  const timeouts = new Set(skeleton.timeouts);
  const cut = new Set(skeleton.cut);
  const repeated = new Set(skeleton.repeated);
  const withoutAction = new Set(skeleton.no_action);
  return turns.index.map((index, i) => ({
    index,
    offset_s: turns.offset_s[i] ?? 0,
    llm_s: turns.llm_s[i] ?? 0,
    queue_s: turns.queue_s[i] ?? null,
    exec_s: turns.exec_s[i] ?? 0,
    prompt_tokens: turns.prompt_tokens[i] ?? 0,
    output_tokens: turns.output_tokens[i] ?? 0,
    exit_code: turns.exit_code[i] ?? null,
    preview: turns.preview[i] ?? "",
    isError: errors.has(index),
    isTimeout: timeouts.has(index),
    isCut: cut.has(index),
    isRepeated: repeated.has(index),
    hasNoAction: withoutAction.has(index),
    isFirstEdit: index === skeleton.first_edit,
    isFirstTest: index === skeleton.first_test,
    isSubmit: index === skeleton.submit,
  }));
}

/** Twice in a row is a second look; from here on the agent is stuck. */
const LOOP = 3;

/** The longest run of the same command in a row. */
export function longestLoop(skeleton: Skeleton): { command: string; from: number; count: number } | undefined {
  let best: { command: string; from: number; count: number } | undefined;
  for (const { command, turns } of skeleton.repeats) {
    let from = 0;
    for (let i = 0; i < turns.length; i += 1) {
      if (i > 0 && turns[i] !== (turns[i - 1] ?? 0) + 1) from = i;
      const count = i - from + 1;
      if (count >= LOOP && count > (best?.count ?? 0)) best = { command, from: turns[from] ?? 0, count };
    }
  }
  return best;
}
