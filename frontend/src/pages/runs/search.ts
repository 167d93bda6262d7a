import { textParams } from "../../lib/search";

/** The words of the API's query, and what is shown of the answer. `selected` are runs with commas. */
export const runsSearch = (raw: Record<string, unknown>) =>
  textParams(raw, ["status", "name", "recipe", "project", "sort", "cols", "selected"]);
