/** Numbers, durations and times as a reader wants them. Absent values are an en dash, never a zero. */

export const ABSENT = "–";

const plain = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export function formatCount(value: number | null | undefined): string {
  return value == null ? ABSENT : plain.format(value);
}

/** Three significant digits; NaN and infinities keep their names. */
export function formatNumber(value: number | null | undefined): string {
  if (value == null) return ABSENT;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1).replace("-", "−");
  if (Number.isInteger(value)) return plain.format(value).replace("-", "−");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
}

/** A value on an axis: as many digits as it needs and no more. */
export function formatTick(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.0001 || size >= 1e6)) return value.toExponential(0).replace("-", "−");
  return value.toLocaleString("en-GB", { maximumSignificantDigits: 4 }).replace("-", "−");
}

/** A share in percent, one decimal: 0.275 → "27.5 %". */
export function formatShare(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return ABSENT;
  return `${(value * 100).toFixed(1)} %`;
}

/** Seconds: 0.048 → "48 ms", 4.2 → "4.2 s", 103 → "1 m 43 s", 8040 → "2 h 14 m". */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return ABSENT;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(seconds < 9.95 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} m ${whole % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes == null) return ABSENT;
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let size = bytes / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(size < 10 ? 1 : 0)} ${units[unit] ?? ""}`;
}

export type Zone = "local" | "utc";

/** "14:02:11" today, "28 Nov 14:02" on another day; always with the full stamp elsewhere (see Time). */
export function formatTime(iso: string, zone: Zone, now = new Date()): string {
  const at = new Date(iso);
  const timeZone = zone === "utc" ? "UTC" : undefined;
  const day = (date: Date) => date.toLocaleDateString("en-GB", { timeZone });
  if (day(at) === day(now)) {
    return at.toLocaleTimeString("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit" });
  }
  return at.toLocaleString("en-GB", {
    timeZone, day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
  }).replace(",", "");
}

export function formatStamp(iso: string, zone: Zone): string {
  const at = new Date(iso);
  if (zone === "utc") return at.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
  return at.toLocaleString("en-GB", {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
    timeZoneName: "short",
  });
}

export function secondsBetween(from: string | null, to: string | null, now = Date.now()): number | null {
  if (from === null) return null;
  return Math.max(0, ((to === null ? now : Date.parse(to)) - Date.parse(from)) / 1000);
}

/** `turn_token_cap` → "turn token cap". */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/**
 * Control characters in caret notation (^[ is escape) and bidirectional ones by number, so that text written by a model or a sandbox cannot
 * hide or reorder what is read. New lines and tabs stay.
 */
export function visibleText(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20 || code === 0x7f) return `^${String.fromCharCode(code ^ 0x40)}`;
    return `⟨U+${code.toString(16).toUpperCase()}⟩`;
  });
}
