import { countParam, optional, textParams } from "../../lib/search";

export const groupsSearch = (raw: Record<string, unknown>) => ({
  ...textParams(raw, ["stage", "status", "zero_gradient", "has_invalid", "task", "repository", "sort", "cols"]),
  ...optional("step", countParam(raw, "step")),
});

/** turn: where the commands that are shown begin. */
export const groupSearch = (raw: Record<string, unknown>) => optional("turn", countParam(raw, "turn"));
