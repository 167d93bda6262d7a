import { Button, PasswordInput, TextInput } from "@mantine/core";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { type SubmitEvent, useState } from "react";

import { useLogin } from "../../api/me";
import { titleOf } from "../../components/ErrorState";
import { localPath } from "../../lib/search";
import classes from "./LoginPage.module.css";

const route = getRouteApi("/login");

export function LoginPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const login = useLogin();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    login.mutate(
      { username, password },
      { onSuccess: () => { router.history.push(localPath(next)); } },
    );
  };

  return (
    <main className={classes.page}>
      <form className={classes.form} onSubmit={submit}>
        <h1>Log in to Longtail</h1>
        <TextInput label="User name" autoComplete="username" value={username} onChange={(event) => setUsername(event.currentTarget.value)} required />
        <PasswordInput label="Password" autoComplete="current-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} required />
        {login.isError && (
          <p role="alert" className={classes.error}>
            {titleOf(login.error)}
          </p>
        )}
        <Button type="submit" loading={login.isPending}>
          Log in
        </Button>
        <p className={classes.help}>
          No account yet? <code>make demo</code> prints a one-time link for the first admin.
        </p>
      </form>
    </main>
  );
}
