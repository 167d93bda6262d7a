import { cleanup, configure } from "@testing-library/react";
import { afterAll, afterEach, beforeAll } from "vitest";

import { server } from "./server";

// Pages are loaded when they are first shown, and the machine may be busy.
configure({ asyncUtilTimeout: 20_000, getElementError: (message) => new Error(message ?? "not found") });

beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
afterEach(() => {
  cleanup();
  server.resetHandlers();
  localStorage.clear();
});
afterAll(() => server.close());

// What jsdom lacks and Mantine asks for; every query about the screen is answered with no.
Object.defineProperty(window, "matchMedia", {
  value: (media: string) => Object.assign(new EventTarget(), { media, matches: false, onchange: null }),
});
Object.defineProperty(window, "ResizeObserver", {
  value: class {
    observe = () => undefined;
    unobserve = () => undefined;
    disconnect = () => undefined;
  },
});
/** Everything is in view. */
Object.defineProperty(window, "IntersectionObserver", {
  value: class {
    constructor(private readonly onChange: (entries: { isIntersecting: boolean }[]) => void) {}
    observe = () => this.onChange([{ isIntersecting: true }]);
    unobserve = () => undefined;
    disconnect = () => undefined;
  },
});
Object.defineProperty(document, "fonts", { value: new EventTarget() });
HTMLCanvasElement.prototype.getContext = () => null;
window.scrollTo = () => undefined;
Element.prototype.scrollIntoView = () => undefined;
// A layout, so that virtual tables have a window to fill.
Object.defineProperty(Element.prototype, "clientHeight", { get: () => 640 });
Object.defineProperty(Element.prototype, "clientWidth", { get: () => 1200 });
