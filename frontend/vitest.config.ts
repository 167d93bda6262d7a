import { defineConfig, mergeConfig } from "vitest/config";

import vite from "./vite.config";

/** Unit and page tests in jsdom; what needs a browser is in vitest.stack.config.ts. */
export default mergeConfig(
  vite,
  defineConfig({
    test: {
      environment: "jsdom",
      environmentOptions: { jsdom: { url: "http://longtail.test/" } },
      include: ["src/**/*.test.{ts,tsx}"],
      setupFiles: ["src/test/setup.ts"],
      reporters: ["default", "./scripts/summary-reporter.mjs"],
      restoreMocks: true,
      testTimeout: 60_000,
    },
  }),
);
