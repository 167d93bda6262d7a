import type { Face } from "../lib/status";
import { Icon } from "./Icon";
import classes from "./StatusBadge.module.css";

/** A state: icon, hue and word together. */
export function StatusBadge({ face, detail }: { face: Face; detail?: string }) {
  return (
    <span className={classes.badge} data-tone={face.tone} title={face.meaning}>
      <Icon name={face.icon} />
      {face.label}
      {detail !== undefined && <span className={classes.detail}>{detail}</span>}
    </span>
  );
}
