import classes from "./CompareEvals.module.css";

const PX = 14;

/** One mark an attempt: full is solved, a ring is unsolved, hatched is invalid (no reward). */
export function AttemptDots({ attempts }: { attempts: readonly (number | null)[] }) {
  const invalid = attempts.filter((reward) => reward === null).length;
  const solved = attempts.filter((reward) => reward !== null && reward >= 1).length;
  return (
    <svg
      width={attempts.length * PX} height={PX} role="img" className={classes.dots}
      aria-label={`${solved} of ${attempts.length} solved${invalid > 0 ? `, ${invalid} invalid` : ""}`}
    >
      {attempts.map((reward, index) => (
        <Dot key={index} x={index * PX + PX / 2} reward={reward} />
      ))}
    </svg>
  );
}

function Dot({ x, reward }: { x: number; reward: number | null }) {
  if (reward === null) {
    return <path d={`M${x - 4} 3h8v8h-8zM${x - 4} 7l4-4M${x - 4} 11l8-8M${x} 11l4-4`} fill="none" stroke="var(--tone-invalid)" />;
  }
  if (reward >= 1) return <circle cx={x} cy={PX / 2} r="4.5" fill="var(--tone-solved)" />;
  return <circle cx={x} cy={PX / 2} r="4" fill="none" stroke="var(--tone-unsolved)" strokeWidth="1.5" />;
}
