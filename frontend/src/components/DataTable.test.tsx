import { MantineProvider } from "@mantine/core";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { type ComponentProps, useState } from "react";
import { expect, test, vi } from "vitest";

import { theme } from "../theme";
import { type Column, DataTable } from "./DataTable";

type Row = { id: number; task: string; turns: number };

const cell = vi.fn((row: Row) => row.turns);
const columns: Column<Row>[] = [
  { id: "id", header: "Id", width: 80, cell: (row) => row.id },
  { id: "task", header: "Task", width: 80, sortKey: "task", cell: (row) => row.task },
  { id: "turns", header: "Turns", width: 80, align: "right", sortKey: "turns", cell },
  { id: "step", header: "Step", width: 80, isExtra: true, cell: () => "s" },
];
const row = (id: number, turns = 1): Row => ({ id, task: `t-${id}`, turns });

function Table(props: Partial<ComponentProps<typeof DataTable<Row>>>) {
  return (
    <MantineProvider theme={theme} env="test">
      <DataTable label="Rows" columns={columns} rows={[row(3), row(2), row(1)]} rowKey={({ id }) => id} empty="nothing" {...props} />
    </MantineProvider>
  );
}

const ids = () => screen.getAllByRole("row").slice(1).map((one) => within(one).getAllByRole("cell").find((each) => /^\d+$/.test(each.textContent))?.textContent);

test("a header asks the server for an order and says which one holds", async () => {
  const onSort = vi.fn();
  const { rerender } = render(<Table onSort={onSort} />);
  await userEvent.click(screen.getByRole("button", { name: "Turns" }));
  expect(onSort).toHaveBeenLastCalledWith("-turns");
  rerender(<Table onSort={onSort} sort="-turns" />);
  expect(screen.getByRole("columnheader", { name: /Turns/ }).getAttribute("aria-sort")).toBe("descending");
  expect(screen.getByRole("columnheader", { name: /Task/ }).getAttribute("aria-sort")).toBeNull();
  expect(screen.queryByRole("button", { name: "Id" })).toBeNull();
});

test("columns are chosen from a menu and named in the address", async () => {
  const onCols = vi.fn();
  render(<Table onCols={onCols} />);
  expect(screen.queryByRole("columnheader", { name: "Step" })).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Columns 3 / 4" }));
  await userEvent.click(await screen.findByRole("checkbox", { name: "Step" }));
  expect(onCols).toHaveBeenLastCalledWith("task,turns,step");
});

test("shift-click selects the rows between, X the row that has the focus", async () => {
  const seen: (string | number)[][] = [];
  function Selecting() {
    const [selected, setSelected] = useState<(string | number)[]>([]);
    return (
      <Table
        selected={selected}
        onSelected={(keys) => {
          seen.push(keys);
          setSelected(keys);
        }}
      />
    );
  }
  render(<Selecting />);
  const user = userEvent.setup();
  await user.click(screen.getByRole("checkbox", { name: "Select 3" }));
  await user.keyboard("{Shift>}");
  await user.click(screen.getByRole("checkbox", { name: "Select 1" }));
  await user.keyboard("{/Shift}");
  expect(seen.at(-1)).toEqual([3, 2, 1]);
  screen.getAllByRole("row")[2]?.focus();
  await user.keyboard("x");
  expect(seen.at(-1)).toEqual([3, 1]);
});

test("J goes to the list from anywhere on its page, then on in it", async () => {
  render(<Table live="all" />);
  await userEvent.keyboard("j");
  await waitFor(() => expect(document.activeElement).toBe(screen.getAllByRole("row")[1]));
  await userEvent.keyboard("j");
  await waitFor(() => expect(document.activeElement).toBe(screen.getAllByRole("row")[2]));
});

test("rows that come in under the pointer are announced, and shown when the reader asks", async () => {
  const { rerender } = render(<Table live="all" />);
  await userEvent.hover(screen.getByText("t-2"));
  rerender(<Table live="all" rows={[row(5), row(4), row(3), row(2, 9), row(1)]} />);
  expect(ids()).toEqual(["3", "2", "1"]);
  expect(screen.getByText("9")).toBeTruthy(); // values go on being live
  await userEvent.click(screen.getByRole("button", { name: "2 new rows · show" }));
  expect(ids()).toEqual(["5", "4", "3", "2", "1"]);
});

test("another list is shown at once, wherever the pointer is", async () => {
  const { rerender } = render(<Table live="all" />);
  await userEvent.hover(screen.getByText("t-2"));
  rerender(<Table live="failed" rows={[row(9)]} />);
  expect(ids()).toEqual(["9"]);
});

test("only rows that changed are drawn again", () => {
  const rows = [row(3), row(2), row(1)];
  const { rerender } = render(<Table rows={rows} />);
  cell.mockClear();
  rerender(<Table rows={[rows[0] ?? row(3), row(2, 5), rows[2] ?? row(1)]} />);
  expect(cell).toHaveBeenCalledTimes(1);
});
