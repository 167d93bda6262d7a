/** How curves are smoothed: the words of the REST query `smooth`. */
export const SMOOTHINGS = ["mean", "median", "ema", "none"] as const;
export type Smoothing = { kind: (typeof SMOOTHINGS)[number]; amount: number };

export const SMOOTH_LABEL: Record<Smoothing["kind"], string> = {
  mean: "Trailing mean",
  median: "Trailing median",
  ema: "Exponential mean",
  none: "None",
};
const DEFAULT_AMOUNT: Record<Smoothing["kind"], number> = { mean: 10, median: 10, ema: 0.9, none: 0 };

/** What the server would refuse is the default. */
export function readSmoothing(text: string | undefined): Smoothing {
  const [kind, amount] = (text ?? "mean:10").split(":");
  const known = SMOOTHINGS.find((one) => one === kind);
  if (known === "none") return { kind: "none", amount: 0 };
  if (known === undefined || !isAmount(known, Number(amount))) return { kind: "mean", amount: 10 };
  return { kind: known, amount: Number(amount) };
}

export function isAmount(kind: Smoothing["kind"], amount: number): boolean {
  return kind === "ema" ? amount >= 0 && amount <= 0.99 : Number.isInteger(amount) && amount >= 1 && amount <= 100;
}

/** The default is not written, so that addresses stay short. */
export function writeSmoothing({ kind, amount }: Smoothing): string | undefined {
  if (kind === "none") return "none";
  return kind === "mean" && amount === 10 ? undefined : `${kind}:${kind === "ema" ? Number(amount.toFixed(4)) : amount}`;
}

export function withKind(kind: Smoothing["kind"]): Smoothing {
  return { kind, amount: DEFAULT_AMOUNT[kind] };
}

/** What the line is called in a legend. */
export function smoothName({ kind, amount }: Smoothing): string {
  switch (kind) {
    case "mean":
      return `${amount}-step mean`;
    case "median":
      return `${amount}-step median`;
    case "ema":
      return `exponential mean ${amount}`;
    case "none":
      return "as it is";
  }
}

export function isSmooth({ kind, amount }: Smoothing): boolean {
  return kind === "ema" ? amount > 0 : kind !== "none" && amount > 1;
}
