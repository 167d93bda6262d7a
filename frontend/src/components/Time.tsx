import { useEffect, useState } from "react";

import { ABSENT, formatDuration, formatStamp, formatTime, secondsBetween } from "../lib/format";
import { useZone } from "../lib/preferences";

/** A stamp in the zone that the reader chose; the whole stamp on hover. */
export function Time({ at }: { at: string | null }) {
  const zone = useZone();
  if (at === null) return <>{ABSENT}</>;
  return (
    <time dateTime={at} title={formatStamp(at, zone)}>
      {formatTime(at, zone)}
    </time>
  );
}

/** How long something has taken; ticks each second while it has no end. */
export function Elapsed({ from, to }: { from: string | null; to: string | null }) {
  const now = useNow(from !== null && to === null);
  return <>{formatDuration(secondsBetween(from, to, now))}</>;
}

/** How long ago; "3 s ago". */
export function Ago({ at }: { at: string | null }) {
  const zone = useZone();
  const now = useNow(at !== null);
  if (at === null) return <>{ABSENT}</>;
  return (
    <time dateTime={at} title={formatStamp(at, zone)}>
      {formatDuration(Math.max(1, Math.round(secondsBetween(at, null, now) ?? 0)))} ago
    </time>
  );
}

function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}
