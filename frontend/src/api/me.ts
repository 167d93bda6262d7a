import { queryOptions, useMutation, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { Me, Project } from "./types";

export const meQuery = () =>
  queryOptions({
    queryKey: ["me"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/me", { signal })),
    staleTime: Infinity,
    retry: false,
  });

/** The project whose pages these are: the first of the reader's own. The shell shows nothing to who has none. */
export function projectOf(me: Me): Project | undefined {
  return me.projects[0];
}

export function useProject(): Project {
  const { data } = useSuspenseQuery(meQuery());
  const project = projectOf(data);
  if (project === undefined) throw new Error("A page was shown to somebody without a project.");
  return project;
}

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
