import { textParams } from "../../lib/search";

/** `arms` are evaluation stages, comma-separated ids. */
export const compareEvalsSearch = (raw: Record<string, unknown>) => textParams(raw, ["arms"]);
