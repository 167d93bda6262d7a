/** What the probe of a worker's sandbox driver found, in words. */

export type Found = { summary: string; has: string; missing: string[]; isTrusted: boolean };

export function capabilitiesOf(capabilities: Record<string, unknown>): Found | null {
  const { driver, level, features, missing } = capabilities;
  if (typeof driver !== "string" || typeof level !== "string") return null;
  const known = typeof features === "object" && features !== null ? Object.entries(features) : [];
  const has = known.filter(([, is]) => is === true).map(([name]) => name.replaceAll("_", " "));
  const sentences = Array.isArray(missing) ? missing.map(String) : [];
  return {
    summary: `${driver} · ${level} · ${has.length} of ${known.length} features${sentences.length > 0 ? `, ${sentences.length} missing` : ""}`,
    has: `Has: ${has.join(", ") || "nothing"}.`,
    missing: sentences,
    isTrusted: level !== "unsafe" && sentences.length === 0,
  };
}
