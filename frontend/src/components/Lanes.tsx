import { useComputedColorScheme } from "@mantine/core";
import { type KeyboardEvent, type MouseEvent, type ReactNode, useEffect, useId, useMemo, useRef, useState } from "react";

import { formatDuration, formatTick } from "../lib/format";
import { laneAt, layoutOf, type Layout, paintLane, type Segment, segmentAt, timeTicks } from "../lib/lanes";
import type { Tone } from "../lib/status";
import { ChartFrame, type LegendItem } from "./ChartFrame";
import classes from "./Lanes.module.css";
import { useWidth } from "./useWidth";

export type Lane = {
  key: string | number;
  label: string;
  /** What it came to: "solved · 8 turns". */
  note?: string;
  tone?: Tone;
  /** Lanes of one group stand together under its name. */
  group?: string;
  /** Colours are tokens: "--role-llm". Later ones lie on top. */
  segments: readonly Segment[];
  /** A thin strip below the segments, for a second property: the weight version. */
  strip?: readonly Segment[];
  /** A line through this lane alone: when its group was consumed. */
  marks?: readonly Mark[];
};
export type Mark = { at: number; label: string };

type Props = {
  label: string;
  /** Population and order. */
  note?: string;
  lanes: readonly Lane[];
  from: number;
  to: number;
  unit?: string;
  /** Lines through all lanes. */
  marks?: readonly Mark[];
  legend?: LegendItem[];
  onOpen?: (key: Lane["key"]) => void;
  empty?: ReactNode;
};

const AXIS_PX = 20;
const MARKS_PX = 16;

/** Many things on one axis of time: a lane each. Arrows or J and K move between lanes, left and right between segments, Enter opens. */
export function Lanes({ label, note, lanes, from, to, unit = "s", marks = [], legend, onOpen, empty }: Props) {
  const [host, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scheme = useComputedColorScheme("light");
  const [at, setAt] = useState<{ lane: number; segment: Segment | undefined }>({ lane: 0, segment: undefined });
  const [isShown, setShown] = useState(false);
  const id = useId();
  const layout = useMemo(() => layoutOf(lanes.map((lane) => lane.group)), [lanes]);
  const gutter = layout.rowPx < 10 ? (layout.headings.length > 0 ? 72 : 8) : width < 480 ? 72 : 128;
  const head = marks.length > 0 ? MARKS_PX : 4;
  const plot = Math.max(40, width - gutter - 8);
  const format = (value: number) => (unit === "s" ? formatDuration(value) : `${formatTick(value)} ${unit}`);
  const active = lanes[Math.min(at.lane, lanes.length - 1)];
  const text = active === undefined ? "" : describe(active, at.segment, format);

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context) draw(context, { lanes, layout, from, to, width, gutter, plot, head, marks, unit });
  }, [lanes, layout, from, to, width, gutter, plot, head, marks, unit, scheme]);

  const onPointer = (event: MouseEvent<HTMLElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const lane = laneAt(layout, event.clientY - box.top - head);
    if (lane === undefined) return;
    const time = from + ((event.clientX - box.left - gutter) / plot) * (to - from);
    setAt({ lane, segment: segmentAt(lanes[lane]?.segments ?? [], time) });
    setShown(true);
  };
  const move = (lane: number) => {
    const index = Math.max(0, Math.min(lanes.length - 1, lane));
    setAt({ lane: index, segment: undefined });
    setShown(true);
    const box = host.current;
    const top = head + (layout.tops[index] ?? 0);
    if (box !== null && (top < box.scrollTop || top + layout.rowPx > box.scrollTop + box.clientHeight)) box.scrollTo({ top: top - 40 });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || active === undefined) return;
    const segments = active.segments;
    const step = (by: number) => {
      const next = segments[Math.max(0, Math.min(segments.length - 1, (at.segment === undefined ? (by > 0 ? -1 : segments.length) : segments.indexOf(at.segment)) + by))];
      setAt({ ...at, segment: next });
    };
    if (event.key === "ArrowDown" || event.key === "j") move(at.lane + 1);
    else if (event.key === "ArrowUp" || event.key === "k") move(at.lane - 1);
    else if (event.key === "ArrowRight") step(1);
    else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(lanes.length - 1);
    else if (event.key === "Enter") onOpen?.(active.key);
    else return;
    event.preventDefault();
  };

  return (
    <ChartFrame
      title={label}
      {...(note === undefined ? {} : { note })}
      legend={lanes.length === 0 ? [] : (legend ?? legendOf(lanes))}
      twin={<Twin lanes={lanes} unit={unit} />}
    >
      <p className={classes.readout} aria-live="polite">
        {isShown ? text : lanes.length > 0 ? "Point at a lane, or walk them with the arrow keys." : ""}
      </p>
      <div ref={host} className={classes.host}>
        {lanes.length === 0 ? (empty ?? <p className={classes.nothing}>Nothing to draw yet</p>) : (
          <div
            className={classes.lanes} role="listbox" tabIndex={0} aria-label={`${label}: ${lanes.length} lanes`} aria-activedescendant={id}
            data-opens={onOpen !== undefined} style={{ height: head + layout.height + AXIS_PX }}
            onKeyDown={onKeyDown} onFocus={() => setShown(true)} onMouseMove={onPointer} onMouseLeave={() => setShown(false)}
            onClick={() => {
              if (active !== undefined) onOpen?.(active.key);
            }}
          >
            <canvas ref={canvas} aria-hidden="true" className={classes.canvas} />
            {isShown && <div className={classes.cursor} style={{ top: head + (layout.tops[at.lane] ?? 0) - 1, height: layout.rowPx + 2 }} />}
            <div role="option" id={id} aria-selected="true" aria-posinset={at.lane + 1} aria-setsize={lanes.length} className={classes.option}>
              {text}
            </div>
          </div>
        )}
      </div>
    </ChartFrame>
  );
}

function describe(lane: Lane, segment: Segment | undefined, format: (value: number) => string): string {
  const span = segment === undefined ? undefined : `${segment.label} ${format(segment.to - segment.from)}, from ${format(segment.from)} to ${format(segment.to)}`;
  return [lane.group, lane.label, lane.note, span].filter((part) => part !== undefined && part !== "").join(" · ");
}

function legendOf(lanes: readonly Lane[]): LegendItem[] {
  const colors = new Map<string, string>();
  for (const lane of lanes) for (const { label, color } of lane.segments) if (!colors.has(label)) colors.set(label, color);
  return [...colors].slice(0, 12).map(([label, color]) => ({ label, color: color.startsWith("--") ? `var(${color})` : color, mark: "block" }));
}

type Drawing = {
  lanes: readonly Lane[]; layout: Layout; from: number; to: number; width: number; gutter: number; plot: number; head: number;
  marks: readonly Mark[]; unit: string;
};

function draw(context: CanvasRenderingContext2D, drawing: Drawing): void {
  const { lanes, layout, from, to, width, gutter, plot, head, marks } = drawing;
  const ratio = window.devicePixelRatio || 1;
  const height = head + layout.height + AXIS_PX;
  const { canvas } = context;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ink = inkOf(context);
  drawAxis(context, drawing, ratio, ink);

  const pixelWidth = Math.round(plot * ratio);
  const image = new ImageData(pixelWidth, Math.max(1, Math.round(layout.height * ratio)));
  const pixels = new Uint32Array(image.data.buffer);
  const gap = layout.rowPx >= 8 ? 2 : layout.rowPx > 2 ? 1 : 0;
  lanes.forEach((lane, index) => {
    const top = Math.round((layout.tops[index] ?? 0) * ratio);
    const bottom = Math.round(((layout.tops[index] ?? 0) + layout.rowPx - gap) * ratio);
    const strip = lane.strip !== undefined && layout.rowPx >= 8 ? Math.round(3 * ratio) : 0;
    const bars = (segments: readonly Segment[]) => segments.map((segment) => ({ ...segment, rgba: ink.pixel(segment.color) }));
    paintLane(pixels, pixelWidth, { top, height: Math.max(1, bottom - top - strip) }, from, to, bars(lane.segments));
    if (strip > 0) paintLane(pixels, pixelWidth, { top: bottom - strip, height: strip }, from, to, bars(lane.strip ?? []));
  });
  const layer = document.createElement("canvas");
  layer.width = image.width;
  layer.height = image.height;
  layer.getContext("2d")?.putImageData(image, 0, 0);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(layer, Math.round(gutter * ratio), Math.round(head * ratio));

  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const x = (value: number) => gutter + ((value - from) / (to - from)) * plot;
  context.fillStyle = ink.css("--ink");
  lanes.forEach((lane, index) => {
    for (const mark of lane.marks ?? []) context.fillRect(Math.round(x(mark.at)) - 1, head + (layout.tops[index] ?? 0) - 1, 2, layout.rowPx + 1);
  });
  let free = gutter;
  for (const mark of [...marks].sort((a, b) => a.at - b.at)) {
    const left = x(mark.at);
    context.fillRect(Math.round(left), MARKS_PX - 2, 1, layout.height + 2);
    const size = context.measureText(mark.label).width;
    const start = Math.min(left + 3, gutter + plot - size);
    if (start < free) continue;
    context.fillText(mark.label, start, 11);
    free = start + size + 8;
  }
}

/** Grid, ticks and the names of lanes. */
function drawAxis(context: CanvasRenderingContext2D, { lanes, layout, from, to, gutter, plot, head, unit }: Drawing, ratio: number, ink: Ink): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const x = (value: number) => gutter + ((value - from) / (to - from)) * plot;
  const bottom = head + layout.height;
  for (const tick of timeTicks(from, to, plot / 88)) {
    const left = Math.round(x(tick));
    context.fillStyle = ink.css("--hairline");
    context.fillRect(left, head, 1, layout.height + 4);
    context.fillStyle = ink.css("--ink-2");
    context.textAlign = left > gutter + plot - 24 ? "right" : left < gutter + 24 ? "left" : "center";
    context.fillText(unit === "s" && tick > 0 ? formatDuration(tick).replace(/ 0 [sm]$/, "") : formatTick(tick), left, bottom + 15);
  }
  context.textAlign = "left";
  for (const { top, text } of layout.headings) {
    context.fillStyle = ink.css("--ink-2");
    context.fillText(clip(context, text, gutter + plot), 0, head + top + 15);
  }
  if (layout.rowPx < 10) return;
  lanes.forEach((lane, index) => {
    const middle = head + (layout.tops[index] ?? 0) + layout.rowPx / 2;
    if (lane.tone !== undefined) {
      context.fillStyle = ink.css(`--tone-${lane.tone}`);
      context.fillRect(0, middle - 4, 6, 6);
    }
    context.fillStyle = ink.css("--ink");
    context.fillText(clip(context, lane.label, gutter - 18), 10, middle + 3);
  });
}

function clip(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

type Ink = { css: (color: string) => string; pixel: (color: string) => number };

/** Tokens as the theme has them now. */
function inkOf(context: CanvasRenderingContext2D): Ink {
  const style = getComputedStyle(context.canvas);
  const known = new Map<string, number>();
  const css = (color: string) => style.getPropertyValue(color).trim() || color;
  return {
    css,
    pixel: (color) => {
      const cached = known.get(color);
      if (cached !== undefined) return cached;
      context.fillStyle = css(color);
      const value = Number.parseInt(context.fillStyle.slice(1), 16);
      // canvas memory is RGBA, little-endian
      const pixel = ((0xff << 24) | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
      known.set(color, pixel);
      return pixel;
    },
  };
}

/** One row a lane: seconds by what they went to. */
function Twin({ lanes, unit }: { lanes: readonly Lane[]; unit: string }) {
  const labels = [...new Set(lanes.flatMap((lane) => lane.segments.map((segment) => segment.label)))];
  const sum = (lane: Lane, label?: string) =>
    lane.segments.filter((segment) => label === undefined || segment.label === label).reduce((total, { from, to }) => total + to - from, 0);
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Lane</th>
          <th scope="col">Came to</th>
          <th scope="col">Began ({unit})</th>
          {labels.map((label) => (
            <th key={label} scope="col">{label} ({unit})</th>
          ))}
          <th scope="col">Ended ({unit})</th>
        </tr>
      </thead>
      <tbody>
        {lanes.map((lane) => (
          <tr key={lane.key}>
            <th scope="row">{[lane.group, lane.label].filter(Boolean).join(" · ")}</th>
            <td>{lane.note}</td>
            <td>{formatTick(lane.segments[0]?.from ?? 0)}</td>
            {labels.map((label) => (
              <td key={label}>{formatTick(sum(lane, label))}</td>
            ))}
            <td>{formatTick(Math.max(0, ...lane.segments.map((segment) => segment.to)))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
