import "./tokens.css"; // first: it orders the layers
import "@fontsource-variable/inter/wght.css";
import "@mantine/core/styles.layer.css";
import "@mantine/notifications/styles.layer.css";

import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { Problem } from "./api/problem";
import { createAppRouter } from "./router";
import { cssVariables, theme } from "./theme";

const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error) => {
      if (!(error instanceof Problem) || error.status !== 401 || location.pathname === "/login") return;
      queryClient.removeQueries({ queryKey: ["me"] });
      router.navigate({ to: "/login", search: { next: location.pathname + location.search } }).catch(() => undefined);
    },
  }),
  defaultOptions: {
    queries: {
      // The live socket says what is stale; a clock only backs it up.
      staleTime: 30_000,
      retry: (count, error) => count < 2 && !(error instanceof Problem && error.status >= 400 && error.status < 500),
    },
  },
});
const router = createAppRouter(queryClient);

/** index.html comes from Django with a nonce, because Mantine injects styles and the policy has no unsafe-inline. */
function styleNonce(): string {
  const meta = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"], meta[property="csp-nonce"]');
  if (meta === null) return "";
  // Browsers hide the attribute and keep the property.
  return meta.nonce === undefined || meta.nonce === "" ? meta.content : meta.nonce;
}

// What locks the page's scrolling under a dialog (get-nonce, by Mantine) asks for the nonce by this name.
Object.assign(window, { __webpack_nonce__: styleNonce() });

const element = document.getElementById("root");
if (element === null) throw new Error("index.html has no #root");
createRoot(element).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={cssVariables} defaultColorScheme="auto" getStyleNonce={styleNonce}>
      <QueryClientProvider client={queryClient}>
        <Notifications position="bottom-right" />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
