import { afterEach, expect, test, vi } from "vitest";

import { addLayer, describeKeys, type Keys } from "./keys";
import { singleKeys } from "./preferences";

const leave: (() => void)[] = [];
const add = (keys: Keys, scope: "Everywhere" | "This page" = "This page") => {
  const remove = addLayer({ scope, keys: () => keys });
  leave.push(remove);
  return remove;
};
const press = (key: string, init: KeyboardEventInit = {}, target: EventTarget = document.body) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init }));

afterEach(() => {
  for (const remove of leave.splice(0)) remove();
});

test("the newest layer that knows a key answers, and when it goes the older one does", () => {
  const [older, newer] = [vi.fn(), vi.fn()];
  add({ j: older });
  const remove = add({ j: newer });
  press("j");
  remove();
  leave.pop();
  press("j");
  expect([older, newer].map((act) => act.mock.calls.length)).toEqual([1, 1]);
});

test("the second key of a sequence is not a key of its own", () => {
  const [engines, error] = [vi.fn(), vi.fn()];
  add({ "g e": { label: "Engines", act: engines } }, "Everywhere");
  add({ e: error });
  press("g");
  press("e");
  expect(engines).toHaveBeenCalledOnce();
  expect(error).not.toHaveBeenCalled();
  press("g");
  press("x");
  press("e");
  expect(error).toHaveBeenCalledOnce();
});

test("keys rest while a person types, holds a modifier, is in a dialog or has turned them off", () => {
  const act = vi.fn();
  add({ j: act });
  document.body.innerHTML = "<input /><div role='dialog'><button></button></div>";
  for (const target of document.querySelectorAll("input, button")) press("j", {}, target);
  press("j", { ctrlKey: true });
  singleKeys.set("off");
  press("j");
  singleKeys.set("on");
  expect(act).not.toHaveBeenCalled();
  press("j");
  expect(act).toHaveBeenCalledOnce();
});

test("the help lists keys with the word that a key has on every page, or with its own", () => {
  add({ y: { label: "Copy the address", act: () => undefined } }, "Everywhere");
  add({ j: () => undefined, J: () => undefined });
  expect(describeKeys()).toEqual([
    { scope: "Everywhere", key: "y", label: "Copy the address" },
    { scope: "This page", key: "j", label: "Next in the list" },
  ]);
});
