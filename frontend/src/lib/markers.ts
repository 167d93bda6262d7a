/** Shapes that tell curves apart where hue alone would not (WCAG 1.4.1). Paths around 0,0, for SVG and canvas alike. */
export const MARKERS = [
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", // ●
  "M-3.5 -3.5h7v7h-7Z", // ■
  "M0 -4.5L4.5 3.5H-4.5Z", // ▲
  "M0 -5L5 0L0 5L-5 0Z", // ◆
  "M0 4.5L4.5 -3.5H-4.5Z", // ▼
  "M-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z", // ✚
  "M-4.5 0L3.5 -4.5V4.5Z", // ◀
  "M4.5 0L-3.5 -4.5V4.5Z", // ▶
  "M0 -5L1.4 -1.4L5 0L1.4 1.4L0 5L-1.4 1.4L-5 0L-1.4 -1.4Z", // ✦
  "M-4.5 -1.5h9v3h-9Z", // ▬
] as const;

/** Ten hues, in the order of MARKERS. */
export const RUN_COLORS = [
  "--run-1", "--run-2", "--run-3", "--run-4", "--run-5", "--run-6", "--run-7", "--run-8", "--run-9", "--run-10",
] as const;
