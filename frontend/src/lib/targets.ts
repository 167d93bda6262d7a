/** What a person types to name a thing by its number or key: "trajectory 4012", "t4012", "sandbox 3", "run 7", "task calc-0017". */
export type Target = { kind: "run" | "trajectory" | "sandbox" | "failure"; id: number } | { kind: "task"; key: string };

const KINDS = ["run", "trajectory", "sandbox", "failure"] as const;

/** All things that a text may name: a bare number may be a run or a trajectory. */
export function targetsOf(text: string): Target[] {
  const found = /^\s*([a-z]*)\s*#?(\d{1,15})\s*$/i.exec(text);
  if (found !== null) {
    const word = (found[1] ?? "").toLowerCase();
    const id = Number(found[2]);
    const kinds = word === "" ? (["trajectory", "run"] as const) : KINDS.filter((kind) => kind.startsWith(word));
    return kinds.map((kind) => ({ kind, id }));
  }
  const task = /^\s*task\s+(\S+)\s*$/i.exec(text)?.[1];
  return task === undefined ? [] : [{ kind: "task", key: task }];
}
