/** Where siblings part: they begin with the same task and the same weights. */

type Command = { turn: number; command: string };

/** What counts as the same command: spaces at its ends and the number of those inside do not. */
function normal(command: string | undefined): string | undefined {
  return command?.trim().replaceAll(/\s+/g, " ");
}

/**
 * The first turn in which not all siblings ran the same command, or in which one had already ended; null where all ran the same to
 * the end. One that ran nothing (it failed to start) says nothing.
 */
export function firstDivergence(siblings: readonly (readonly Command[])[]): number | null {
  const ran = siblings.filter((commands) => commands.length > 0).map((commands) => new Map(commands.map(({ turn, command }) => [turn, normal(command)])));
  const [first] = ran;
  if (first === undefined || ran.length < 2) return null;
  const most = Math.max(...ran.flatMap((commands) => [...commands.keys()]));
  for (let turn = 0; turn <= most; turn += 1) {
    if (ran.some((commands) => commands.get(turn) !== first.get(turn))) return turn;
  }
  return null;
}

/** The command that most siblings ran in a turn; undefined where none is ahead. */
export function commonest(commands: readonly (string | undefined)[]): string | undefined {
  const counts = new Map<string, number>();
  for (const command of commands) {
    const text = normal(command);
    if (text !== undefined) counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  const [most, second] = [...counts].sort((a, b) => b[1] - a[1]);
  return most === undefined || most[1] === second?.[1] || (most[1] === 1 && counts.size > 1) ? undefined : most[0];
}

export function isSame(command: string | undefined, other: string | undefined): boolean {
  return normal(command) === normal(other);
}
