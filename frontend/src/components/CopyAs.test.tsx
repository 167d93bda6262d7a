import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";

import { theme } from "../theme";
import { CopyAs } from "./CopyAs";

test("the keyboard copies the page's query as curl and as the client's command", async () => {
  const user = userEvent.setup();
  render(
    <MantineProvider theme={theme} env="test">
      <CopyAs path="/api/v1/runs" query={{ status: "running" }} cli="longtail runs ls --status running" />
    </MantineProvider>,
  );
  await user.tab();
  await user.keyboard("{Enter}{ArrowDown}{Enter}");
  expect(await screen.findByText("Copied")).toBeTruthy();
  expect(await navigator.clipboard.readText()).toContain("http://longtail.test/api/v1/runs?status=running");

  await user.click(screen.getByRole("button"));
  await user.click(await screen.findByRole("menuitem", { name: "Copy as CLI" }));
  expect(await navigator.clipboard.readText()).toBe("longtail runs ls --status running");
});
