/** What colours a token: a share of one hue by the size of a value, or a hue by a class. */
import type { Tokens } from "../api/inspector";

export const TOKEN_COLORINGS = ["gap", "logprob", "mask", "version"] as const;
export type TokenColoring = (typeof TOKEN_COLORINGS)[number];

export type TokenShade = { /** 0 to 1. */ strength: number; hue: string };

/** Full strength from here on: a gap of 1 nat is e times likelier, a log-prob of −6 one in 400. */
export const FULL = { gap: 1, logprob: 6 } as const;
export const VERSION_HUES = ["--role-llm", "--role-trainer", "--role-sandbox", "--tone-unsolved", "--role-rollout"] as const;

export function gapOf(tokens: Tokens, i: number): number | null {
  const mu = tokens.logprobs[i];
  const prox = tokens.trainer?.[i];
  return mu == null || prox == null ? null : prox - mu;
}

export function shadeOf(tokens: Tokens, i: number, coloring: TokenColoring): TokenShade | null {
  switch (coloring) {
    case "gap": {
      const gap = gapOf(tokens, i);
      // likelier for the trainer than when it was sampled: trainer's hue; less likely: rollout's
      return gap === null ? null : { strength: Math.min(1, Math.abs(gap) / FULL.gap), hue: gap >= 0 ? "--role-trainer" : "--role-rollout" };
    }
    case "logprob": {
      const logprob = tokens.logprobs[i];
      return logprob == null ? null : { strength: Math.min(1, -logprob / FULL.logprob), hue: "--role-rollout" };
    }
    case "mask":
      return tokens.mask[i] === 1 ? { strength: 0.45, hue: "--role-llm" } : null;
    case "version": {
      const version = tokens.versions[i];
      return version == null ? null : { strength: 0.45, hue: hueOfVersion(version) };
    }
  }
}

export function hueOfVersion(version: number): string {
  return VERSION_HUES[version % VERSION_HUES.length] ?? VERSION_HUES[0];
}

/** White space of a token as signs; its line break stays one as well. */
export function visiblePiece(piece: string): string {
  return piece.replaceAll("\n", "↵\n").replaceAll("\t", "→\t");
}

/**
 * Stretches of tokens: one for each that the policy sampled or the format put in, one for each run of others, so that a long observation
 * is one element.
 */
export function groupTokens(tokens: Tokens): { from: number; to: number }[] {
  const special = new Set(tokens.special);
  const groups: { from: number; to: number }[] = [];
  let wasPlain = false;
  for (let i = 0; i < tokens.ids.length; i += 1) {
    const isPlain = tokens.mask[i] !== 1 && !special.has(i);
    const last = groups.at(-1);
    if (isPlain && wasPlain && last !== undefined) last.to = i + 1;
    else groups.push({ from: i, to: i + 1 });
    wasPlain = isPlain;
  }
  return groups;
}
