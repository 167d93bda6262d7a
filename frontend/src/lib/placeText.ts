/** A place on an x axis as a person types it: a number, or a moment in the reader's zone. */
import type { XAxis } from "./axis";
import type { Zone } from "./format";

export const PLACE_UNIT: Record<XAxis, string> = {
  step: "",
  wall: "",
  elapsed: ", s,",
  active_elapsed: ", s,",
  trajectories: "",
  tokens: "",
};

export function toPlaceText(axis: XAxis, value: number | undefined, zone: Zone): string {
  if (value === undefined) return "";
  if (axis !== "wall") return String(value);
  const at = new Date(value * 1000);
  const shifted = zone === "utc" ? at : new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}

/** Undefined for nothing, null for what is no place. */
export function fromPlaceText(axis: XAxis, text: string, zone: Zone): number | null | undefined {
  if (text.trim() === "") return undefined;
  const value = axis === "wall" ? Date.parse(zone === "utc" ? `${text}Z` : text) / 1000 : Number(text.replaceAll(/[,\s]/g, ""));
  return Number.isFinite(value) ? value : null;
}
