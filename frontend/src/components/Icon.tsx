import type { IconName } from "../lib/status";

/** 16 × 16 strokes. Shapes differ as much as hues, so no state is told by colour alone. */
const SHAPES: Record<IconName, React.ReactNode> = {
  check: (
    <>
      <circle cx="8" cy="8" r="6.25" fill="currentColor" stroke="none" />
      <path d="m5 8.2 2.1 2.1L11 6.2" stroke="var(--paper)" strokeWidth="1.6" />
    </>
  ),
  cross: <path d="M8 2.2a5.8 5.8 0 1 1 0 11.6A5.8 5.8 0 0 1 8 2.2Zm-2 3.8 4 4m0-4-4 4" strokeWidth="1.5" />,
  hatch: (
    <path d="M2.5 2.5h11v11h-11zM2.5 7 7 2.5M2.5 11.5l9-9M4.5 13.5l9-9M9 13.5l4.5-4.5" strokeWidth="1.2" />
  ),
  half: (
    <>
      <circle cx="8" cy="8" r="5.8" strokeWidth="1.5" />
      <path d="M8 2.2a5.8 5.8 0 0 1 0 11.6Z" fill="currentColor" stroke="none" />
    </>
  ),
  ring: <circle cx="8" cy="8" r="5.8" strokeWidth="1.5" strokeDasharray="2.6 2.2" />,
  pause: <path d="M5.5 3v10M10.5 3v10" strokeWidth="2.4" />,
  slash: <path d="M8 2.2a5.8 5.8 0 1 1 0 11.6A5.8 5.8 0 0 1 8 2.2ZM4 12 12 4" strokeWidth="1.5" />,
  alert: <path d="M8 2 14.5 13.5h-13zM8 6.3v3.4M8 11.4v.6" strokeWidth="1.5" strokeLinejoin="round" />,
  dot: <circle cx="8" cy="8" r="3.5" fill="currentColor" stroke="none" />,
  arrow: <path d="M3 8h9m-3.5-4L12.5 8l-4 4" strokeWidth="1.6" />,
};

export function Icon({ name, size = 14 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" aria-hidden="true" focusable="false">
      {SHAPES[name]}
    </svg>
  );
}
