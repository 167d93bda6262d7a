import { ws } from "msw";
import { setupServer } from "msw/node";

/** Tests say what the API answers; a request that no handler expects fails the test. */
export const server = setupServer(ws.link("ws://longtail.test/ws/live").addEventListener("connection", () => undefined));
