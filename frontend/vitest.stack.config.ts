import { defineConfig } from "vitest/config";

/** Tests in a real Chromium (Debian's: nothing is downloaded) on a real stack; tests/e2e/test_dashboard.py runs them. */
export default defineConfig({
  test: {
    environment: "node",
    include: ["e2e/**/*.browser.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    reporters: ["default", "./scripts/summary-reporter.mjs"],
  },
});
