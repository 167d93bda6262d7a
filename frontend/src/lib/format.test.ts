import { expect, test } from "vitest";

import { formatBytes, formatCount, formatDuration, formatNumber, formatShare, formatTime, visibleText } from "./format";

test("what is absent is a dash, never a zero", () => {
  for (const format of [formatCount, formatNumber, formatShare, formatDuration, formatBytes]) {
    expect(format(null)).toBe("–");
    expect(format(undefined)).toBe("–");
    expect(format(0)).not.toBe("–");
  }
});

test("durations read as people say them", () => {
  expect(formatDuration(0.048)).toBe("48 ms");
  expect(formatDuration(4.21)).toBe("4.2 s");
  expect(formatDuration(59.97)).toBe("1 m 0 s");
  expect(formatDuration(103)).toBe("1 m 43 s");
  expect(formatDuration(8040)).toBe("2 h 14 m");
});

test("non-finite numbers keep their names", () => {
  expect(formatNumber(NaN)).toBe("NaN");
  expect(formatNumber(Infinity)).toBe("+∞");
  expect(formatNumber(0.01134)).toBe("0.011");
  expect(formatNumber(13800)).toBe("13,800");
});

test("a stamp of another day says which day", () => {
  const now = new Date("2026-11-29T20:00:00Z");
  expect(formatTime("2026-11-29T12:00:01Z", "utc", now)).toBe("12:00:01");
  expect(formatTime("2026-11-28T12:00:01Z", "utc", now)).toBe("28 Nov 12:00");
});

test("control and bidirectional characters of untrusted text become visible", () => {
  expect(visibleText("a\u001b[31mred\u001b[0m\tb\nc")).toBe("a^[[31mred^[[0m\tb\nc");
  expect(visibleText("\u0000\u007f")).toBe("^@^?");
  expect(visibleText("if \u202etrue")).toBe("if ⟨U+202E⟩true");
  expect(visibleText("a\u200bb\u009b\u{e0041}")).toBe("a⟨U+200B⟩b⟨U+9B⟩⟨U+E0041⟩");
});
