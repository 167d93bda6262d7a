import { textParams } from "../../lib/search";

export const eventsSearch = (raw: Record<string, unknown>) => textParams(raw, ["level"]);
export const stepsSearch = (raw: Record<string, unknown>) => textParams(raw, ["stage", "resume", "step"]);
