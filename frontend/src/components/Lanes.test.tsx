import { MantineProvider } from "@mantine/core";
import { fireEvent, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";

import { theme } from "../theme";
import { type Lane, Lanes } from "./Lanes";

const lane = (key: number, note: string): Lane => ({
  key, label: `#${key}`, note, group: "calc-1",
  segments: [{ from: 0, to: 4, color: "--role-llm", label: "LLM" }, { from: 4, to: 6, color: "--role-sandbox", label: "tests" }],
});

function show(onOpen = vi.fn()) {
  render(
    <MantineProvider theme={theme} env="test">
      <Lanes label="Groups" lanes={[lane(41, "solved"), lane(42, "invalid")]} from={0} to={10} onOpen={onOpen} />
    </MantineProvider>,
  );
  return { onOpen, list: screen.getByRole("listbox", { name: "Groups: 2 lanes" }) };
}

test("arrows walk lanes and their segments and say what each is; Enter opens it", async () => {
  const { onOpen, list } = show();
  list.focus();
  expect(screen.getByRole("option").textContent).toBe("calc-1 · #41 · solved");
  await userEvent.keyboard("j");
  expect(screen.getByRole("option").textContent).toBe("calc-1 · #42 · invalid");
  expect(screen.getByRole("option").getAttribute("aria-posinset")).toBe("2");
  await userEvent.keyboard("{ArrowRight}{ArrowRight}");
  expect(screen.getByRole("option").textContent).toBe("calc-1 · #42 · invalid · tests 2.0 s, from 4.0 s to 6.0 s");
  await userEvent.keyboard("{Enter}");
  expect(onOpen).toHaveBeenCalledWith(42);
  await userEvent.keyboard("{ArrowDown}{ArrowUp}{ArrowUp}{Enter}");
  expect(onOpen).toHaveBeenLastCalledWith(41);
});

test("the pointer finds the lane and the segment below it", () => {
  const { list } = show();
  // jsdom lays nothing out: the plot begins after a gutter of 128 and is 480 - 128 - 8 wide; lanes begin after a heading
  fireEvent.mouseMove(list, { clientX: 128 + 344 * 0.5, clientY: 4 + 20 + 18 + 5 });
  expect(screen.getByRole("option").textContent).toContain("#42 · invalid · tests");
});

test("the table twin has a row for each lane with the seconds of each kind", async () => {
  show();
  await userEvent.click(screen.getByRole("button", { name: "Table" }));
  const rows = within(screen.getByRole("table")).getAllByRole("row").map((row) => row.textContent);
  expect(rows).toEqual(["LaneCame toBegan (s)LLM (s)tests (s)Ended (s)", "calc-1 · #41solved0426", "calc-1 · #42invalid0426"]);
});
