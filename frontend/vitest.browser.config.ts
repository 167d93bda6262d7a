import { defineConfig } from "vitest/config";

/** Tests in a real Chromium (Debian's: nothing is downloaded). `npm run shots` takes pictures of every page. */
export default defineConfig({
  test: {
    environment: "node",
    include: ["e2e/**/*.browser.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    reporters: ["default", "./scripts/summary-reporter.mjs"],
  },
});
