import { formatShare } from "../../../lib/format";
import classes from "./ShareBar.module.css";

export type Share = { key: string; label: string; share: number; color: string; isHatched?: boolean; title?: string };

/** One bar of a whole; the rows beside it name its parts. */
export function ShareBar({ label, parts }: { label: string; parts: readonly Share[] }) {
  const shown = parts.filter(({ share }) => share > 0);
  return (
    <div className={classes.bar} role="img" aria-label={`${label}: ${shown.map((part) => `${part.label} ${formatShare(part.share)}`).join(", ")}`}>
      {shown.map((part) => (
        <div
          key={part.key} className={classes.part} data-hatched={part.isHatched === true} title={part.title ?? `${part.label} ${formatShare(part.share)}`}
          style={{ flexGrow: part.share, background: part.isHatched === true ? undefined : part.color }}
        />
      ))}
    </div>
  );
}
