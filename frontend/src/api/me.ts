import { queryOptions, useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";

import { chosenProject } from "../lib/preferences";
import { answer, api } from "./client";
import type { Me, Project, Role } from "./types";

export const meQuery = () =>
  queryOptions({
    queryKey: ["me"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/me", { signal })),
    staleTime: Infinity,
    retry: false,
  });

/** The chosen one of the reader's own projects, else the first. The shell shows nothing to who has none. */
export function projectOf(me: Me, slug: string | undefined): Project | undefined {
  return me.projects.find((project) => project.slug === slug) ?? me.projects[0];
}

/** The project of a thing on the page by its slug, or the chosen one. */
export function useProject(slug?: string): Project {
  const { data } = useSuspenseQuery(meQuery());
  const chosen = chosenProject.use();
  const project = projectOf(data, slug ?? chosen);
  if (project === undefined) throw new Error("A page was shown to somebody without a project.");
  return project;
}

/** Why this person may not act; empty when they may. */
export const whyNotAct = (role: Role) => (role === "viewer" ? "Viewers may look, operators may act." : "");

export function useLogin() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (body: { username: string; password: string }) => answer(api.POST("/api/v1/login", { body })),
    onSuccess: (me) => {
      queryClient.setQueryData(meQuery().queryKey, me);
    },
  });
}

export function useLogout() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: () => answer(api.POST("/api/v1/logout")),
    onSuccess: () => queryClient.clear(),
  });
}
