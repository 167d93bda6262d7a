import { getRouteApi } from "@tanstack/react-router";

/** The inspector's own route: its address is its state. */
export const inspectorRoute = getRouteApi("/shell/trajectories/$trajectory");
