import { expect, test } from "vitest";

import * as faces from "./status";
import { OUTCOME, outcomeOf } from "./status";

test("every state has a word, an icon and a meaning of its own", () => {
  const records = Object.values(faces).filter((value): value is Record<string, faces.Face> => typeof value === "object");
  expect(records.length).toBe(11);
  for (const record of records) {
    const labels = Object.values(record).map((face) => face.label);
    expect(new Set(labels).size).toBe(labels.length);
    for (const face of Object.values(record)) {
      expect(face.meaning).toMatch(/\.$/);
      expect(face.icon).not.toBe("");
    }
  }
});

test("a trajectory that the infrastructure failed is invalid, whatever number it carries", () => {
  expect(outcomeOf({ status: "failed", reward: null })).toBe("invalid");
  expect(outcomeOf({ status: "failed", reward: 0 })).toBe("invalid");
  expect(outcomeOf({ status: "completed", reward: null })).toBe("invalid");
});

test("only a graded trajectory is solved or unsolved", () => {
  expect(outcomeOf({ status: "completed", reward: 1 })).toBe("solved");
  expect(outcomeOf({ status: "completed", reward: 0 })).toBe("unsolved");
  expect(outcomeOf({ status: "completed", reward: 0.5 })).toBe("unsolved");
  expect(outcomeOf({ status: "open", reward: null })).toBe("running");
  expect(outcomeOf({ status: "cancelled", reward: null })).toBe("cancelled");
});

test("invalid looks like no other outcome", () => {
  const others = Object.entries(OUTCOME).filter(([name]) => name !== "invalid");
  for (const [, face] of others) {
    expect(face.tone).not.toBe(OUTCOME.invalid.tone);
    expect(face.icon).not.toBe(OUTCOME.invalid.icon);
  }
});
