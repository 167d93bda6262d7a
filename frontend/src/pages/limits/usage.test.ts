import { expect, test } from "vitest";

import { makeLimit } from "../../test/factories";
import { nearest, usageOf } from "./usage";

test("use is measured of configured, and the peak is kept beside it", () => {
  expect(usageOf({ configured: 100, measured: 40, peak: 90 })).toEqual({ share: 0.4, peak: 0.9, state: "free" });
  expect(usageOf({ configured: 100, measured: 80, peak: 80 }).state).toBe("near");
  expect(usageOf({ configured: 31, measured: 31, peak: 31 }).state).toBe("full");
});

test("what was never measured is not a use of zero", () => {
  expect(usageOf({ configured: 31, measured: null, peak: null })).toEqual({ share: null, peak: null, state: "unmeasured" });
  expect(usageOf({ configured: null, measured: 4, peak: 4 }).state).toBe("uncapped");
  expect(usageOf({ configured: 0, measured: 1, peak: 1 }).state).toBe("full");
});

test("the nearest limit is the one with the largest share", () => {
  const limits = [makeLimit({ id: 1, measured: 10 }), makeLimit({ id: 2, configured: 20, measured: 19 }), makeLimit({ id: 3, measured: null })];
  expect(nearest(limits)?.id).toBe(2);
  expect(nearest([makeLimit({ measured: 0 })])).toBeNull();
});
