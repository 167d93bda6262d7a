import { textParams } from "../../lib/search";

export const chartsSearch = (raw: Record<string, unknown>) => textParams(raw, ["q", "x", "smooth", "from", "to", "scale", "show"]);
