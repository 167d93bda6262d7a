/**
 * Single keys and two-key sequences ("g r") of the page. Each component that has keys is a layer; the newest one that knows a key answers.
 *
 * Keys rest while a person types, holds a modifier or is in a dialog, and when single keys are turned off.
 */
import { singleKeys } from "./preferences";

export type Binding = { label: string; act: () => void };
export type Keys = Record<string, Binding | (() => void)>;
export type Scope = "Everywhere" | "This page";
type Layer = { scope: Scope; keys: () => Keys };

/** The same key means the same on every page. */
const WORDS: Record<string, string> = {
  "/": "To the filters",
  j: "Next in the list",
  k: "Previous in the list",
  "[": "Previous turn",
  "]": "Next turn",
  e: "Next error",
  E: "Previous error",
};

const TYPING = "input, textarea, select, [contenteditable], [role=dialog], [role=menu], [role=listbox]";
const SEQUENCE_MS = 1_500;

const layers: Layer[] = [];
let prefix: { key: string; at: number } | null = null;

export function addLayer(layer: Layer): () => void {
  if (layers.length === 0) window.addEventListener("keydown", onKeyDown);
  layers.push(layer);
  return () => {
    layers.splice(layers.indexOf(layer), 1);
    if (layers.length === 0) window.removeEventListener("keydown", onKeyDown);
  };
}

/** What the keys of the page do now, for the help. */
export function describeKeys(): { scope: Scope; key: string; label: string }[] {
  const known = new Map<string, { scope: Scope; key: string; label: string }>();
  for (const { scope, keys } of layers) {
    for (const [key, binding] of Object.entries(keys())) {
      const label = typeof binding === "function" ? WORDS[key] : binding.label;
      if (label !== undefined) known.set(key, { scope, key, label });
    }
  }
  return [...known.values()];
}

function onKeyDown(event: KeyboardEvent): void {
  if (singleKeys.get() === "off" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target instanceof Element && event.target.closest(TYPING)) return;
  const first = prefix !== null && event.timeStamp - prefix.at < SEQUENCE_MS ? prefix.key : null;
  prefix = null;
  const act = find(first === null ? event.key : `${first} ${event.key}`);
  if (act !== undefined) {
    event.preventDefault();
    act();
  } else if (first === null && isPrefix(event.key)) {
    prefix = { key: event.key, at: event.timeStamp };
  }
}

function find(key: string): (() => void) | undefined {
  for (const layer of layers.toReversed()) {
    const keys = layer.keys();
    if (!Object.hasOwn(keys, key)) continue;
    const binding = keys[key];
    return typeof binding === "object" ? binding.act : binding;
  }
  return undefined;
}

function isPrefix(key: string): boolean {
  return layers.some((layer) => Object.keys(layer.keys()).some((one) => one.startsWith(`${key} `)));
}
