import { useComputedColorScheme } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { type MouseEvent, useLayoutEffect, useMemo, useRef, useState } from "react";

import { sandboxCarpetQuery } from "../../api/fleet";
import { ChartFrame } from "../../components/ChartFrame";
import { useWidth } from "../../components/useWidth";
import { formatCount, formatNumber, formatTime } from "../../lib/format";
import { useZone } from "../../lib/preferences";
import { cellsOf, occupancy, runsOf, STAGE_COLOR } from "./carpet";
import classes from "./Carpet.module.css";

const MIN_ROW_PX = 1;
const MAX_ROW_PX = 8;
const TALLEST_PX = 260;

/** Who held which slot when: a row a slot, time from left to right, colour is the stage. */
export function Carpet({ run }: { run?: number }) {
  const { data } = useSuspenseQuery(sandboxCarpetQuery(run));
  const { num_slots: slots, num_bins: bins, stages } = data;
  const cells = useMemo(() => cellsOf(data), [data]);
  const [host, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scheme = useComputedColorScheme();
  const zone = useZone();
  const [told, setTold] = useState<string>();
  const rowPx = Math.max(MIN_ROW_PX, Math.min(MAX_ROW_PX, Math.floor(TALLEST_PX / Math.max(1, slots))));
  const height = Math.max(1, slots * rowPx);

  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context == null || canvas.current === null) return;
    const ratio = window.devicePixelRatio;
    canvas.current.width = width * ratio;
    canvas.current.height = height * ratio;
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas.current);
    const colors = stages.map((stage) => style.getPropertyValue(STAGE_COLOR[stage] ?? "--paper"));
    const gap = rowPx > 3 ? 1 : 0;
    for (let row = 0; row < slots; row += 1) {
      for (const { from, to, code } of runsOf(cells, row, bins)) {
        const left = Math.floor((from / bins) * width);
        context.fillStyle = colors[code] ?? "";
        context.fillRect(left, row * rowPx, Math.max(1, Math.ceil((to / bins) * width) - left), rowPx - gap);
      }
    }
  }, [cells, slots, bins, stages, width, height, rowPx, scheme]);

  const from = data.from_at === null ? 0 : Date.parse(data.from_at);
  const to = data.to_at === null ? 0 : Date.parse(data.to_at);
  const timeAt = (share: number) => formatTime(new Date(from + (to - from) * share).toISOString(), zone);
  const point = (event: MouseEvent<HTMLCanvasElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const bin = Math.min(bins - 1, Math.floor(((event.clientX - box.left) / box.width) * bins));
    const row = Math.min(slots - 1, Math.floor(((event.clientY - box.top) / box.height) * slots));
    setTold(`slot ${row + 1}, ${timeAt(bin / bins)}: ${stages[cells[row * bins + bin] ?? 0] ?? ""}`);
  };
  const left = data.num_left_out > 0 ? `, ${formatCount(data.num_left_out)} before a pause of over an hour left out` : "";
  const note = `a row a slot, ${formatCount(data.num_boxes)} sandboxes${left}; a cell is the stage that lasted longest in it, a failure before all`;
  return (
    <ChartFrame
      title="Slots over time"
      note={note}
      legend={stages.flatMap((stage) => {
        const color = STAGE_COLOR[stage];
        return color === undefined ? [] : [{ label: stage, color: `var(${color})`, mark: "block" as const }];
      })}
      readout={<span className={classes.told}>{told}</span>}
      twin={<Twin rows={occupancy(cells, slots, bins, stages.length)} stages={stages} timeAt={timeAt} />}
    >
      <div ref={host} className={classes.host}>
        {slots === 0 ? (
          <p className={classes.nothing}>No sandbox has been started yet</p>
        ) : (
          <>
            <div
              role="img"
              aria-label={`Slots over time: up to ${formatCount(slots)} sandboxes at once, ${formatCount(data.num_boxes)} in all, from ${timeAt(0)} to ${timeAt(1)}`}
            >
              <canvas
                ref={canvas} className={classes.canvas} style={{ height }} aria-hidden="true" onMouseMove={point} onMouseLeave={() => setTold(undefined)}
              />
            </div>
            <div className={classes.axis} aria-hidden="true">
              {[0, 0.25, 0.5, 0.75, 1].map((share) => (
                <span key={share}>{timeAt(share)}</span>
              ))}
            </div>
          </>
        )}
      </div>
    </ChartFrame>
  );
}

function Twin({ rows, stages, timeAt }: { rows: number[][]; stages: readonly string[]; timeAt: (share: number) => string }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">from</th>
          {stages.map((stage) => (
            <th key={stage} scope="col">
              {stage}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          <tr key={index}>
            <td>{timeAt(index / rows.length)}</td>
            {row.map((mean, code) => (
              <td key={stages[code]}>{formatNumber(mean)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
