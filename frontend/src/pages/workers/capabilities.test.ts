import { expect, test } from "vitest";

import { capabilitiesOf } from "./capabilities";

test("a probe is told in one line, with what is missing", () => {
  const found = capabilitiesOf({ driver: "local", level: "bwrap+rlimits", features: { seccomp: true, cgroup: false }, missing: ["No cgroup."] });
  expect(found?.summary).toBe("local · bwrap+rlimits · 1 of 2 features, 1 missing");
  expect([found?.has, found?.isTrusted]).toEqual(["Has: seccomp.", false]);
});

test("a worker without sandboxes has no probe, and an unsafe one is not trusted", () => {
  expect(capabilitiesOf({})).toBeNull();
  expect(capabilitiesOf({ driver: "local", level: "unsafe", features: {}, missing: [] })?.isTrusted).toBe(false);
});
