import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";

import { ScrollRegion } from "../../components/ScrollRegion";
import { useWidth } from "../../components/useWidth";
import { visibleText } from "../../lib/format";
import { textRows } from "../../lib/textRows";
import classes from "./VirtualText.module.css";

const ROW_PX = 18;
/** Of 12 px monospace; wider characters scroll sideways. */
const CHAR_PX = 7.3;
const GUTTER_PX = 64;

type Props = { text: string; label: string; height?: number; /** Scrolls to the end when the text grows. */ isAtEnd?: boolean };

/** Untrusted text of any length: only the rows in view exist, and a line of a megabyte is many short ones. */
export function VirtualText({ text, label, height = 480, isAtEnd = false }: Props) {
  const [host, width] = useWidth<HTMLDivElement>(800);
  const scroller = useRef<HTMLDivElement>(null);
  const columns = Math.max(20, Math.floor((width - GUTTER_PX - 24) / CHAR_PX));
  const rows = useMemo(() => textRows(text, columns), [text, columns]);
  // eslint-disable-next-line react-hooks/incompatible-library -- no compiler here; nothing of it is passed on
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 20,
    initialRect: { width: 800, height },
  });

  useEffect(() => {
    if (isAtEnd) virtualizer.scrollToIndex(rows.length - 1);
  }, [isAtEnd, rows.length, virtualizer]);

  return (
    <div ref={host}>
      <ScrollRegion
        ref={scroller} label={label} className={classes.scroller} style={{ height: Math.min(height, rows.length * ROW_PX + 16) }}
      >
        <div className={classes.rows} style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => (
            <div key={item.index} className={classes.row} style={{ transform: `translateY(${item.start}px)` }}>
              <span className={classes.number} aria-hidden="true">{rows[item.index]?.line ?? "↪"}</span>
              <code>{visibleText(rows[item.index]?.text ?? "")}</code>
            </div>
          ))}
        </div>
      </ScrollRegion>
    </div>
  );
}
