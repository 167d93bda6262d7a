import { textParams } from "../../lib/search";

/** `ids` are runs, comma-separated. */
export const compareSearch = (raw: Record<string, unknown>) => textParams(raw, ["ids", "x", "smooth", "keys", "base"]);
