import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The Django process that `npm run dev` talks to.
const backend = process.env.LONGTAIL_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  // Django serves index.html itself (with a nonce) and finds the hashed files in the manifest.
  base: "/static/app/",
  build: {
    manifest: true,
    target: "es2022",
    // data: URLs would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
    // Curves come with the pages that draw them, once.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "uplot", test: /node_modules\/uplot/ }] } } },
  },
  server: {
    proxy: {
      "/api": backend,
      "/ws": { target: backend, ws: true },
    },
  },
});
