import type { ComponentProps } from "react";

type Props = Omit<ComponentProps<"div">, "role" | "tabIndex" | "aria-label"> & { label: string };

/** What is larger than its box scrolls inside it, by keyboard too: hence a name, and a place in the order of Tab. */
export function ScrollRegion({ label, ...box }: Props) {
  // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, so the keyboard must reach it
  return <div {...box} role="region" aria-label={label} tabIndex={0} />;
}
