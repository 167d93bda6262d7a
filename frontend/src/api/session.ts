import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";

import { get, post } from "./client";
import type { Session } from "./types";

export const sessionQuery = () =>
  queryOptions({
    queryKey: ["session"],
    queryFn: ({ signal }) => get<Session>("/session", {}, signal),
    staleTime: Infinity,
    retry: false,
  });

export function useLogin() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (credentials: { username: string; password: string }) =>
      post<Session>("/session/login", credentials),
    onSuccess: (session) => {
      queryClient.setQueryData(sessionQuery().queryKey, session);
    },
  });
}

export function useLogout() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: () => post<undefined>("/session/logout"),
    onSuccess: () => queryClient.clear(),
  });
}
