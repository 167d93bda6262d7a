/**
 * How well `query` is found in `text`, letters in order: higher is better, null is not at all.
 * Letters that begin a word or follow one another count more, and short texts win over long ones.
 */
export function fuzzyScore(query: string, text: string): number | null {
  const wanted = query.toLowerCase().replaceAll(/\s+/g, "");
  const lower = text.toLowerCase();
  let score = 0;
  let from = 0;
  let last = -2;
  for (const letter of wanted) {
    const at = nextAt(lower, letter, from, last);
    if (at === -1) return null;
    const beginsWord = at === 0 || !/[\p{L}\p{N}]/u.test(lower[at - 1] ?? "");
    score += 1 + (at === last + 1 ? 3 : 0) + (beginsWord ? 4 : 0);
    last = at;
    from = at + 1;
  }
  return score - text.length / 100;
}

/** The letter right after the last one, else one that begins a word, else the first. */
function nextAt(text: string, letter: string, from: number, last: number): number {
  if (text[last + 1] === letter) return last + 1;
  for (let at = text.indexOf(letter, from); at !== -1; at = text.indexOf(letter, at + 1)) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1] ?? "")) return at;
  }
  return text.indexOf(letter, from);
}

/** The items that hold the query, best first; all of them in their own order if there is none. */
export function fuzzyFind<Item>(query: string, items: readonly Item[], textOf: (item: Item) => string): Item[] {
  if (query.trim() === "") return [...items];
  return items
    .map((item) => ({ item, score: fuzzyScore(query, textOf(item)) }))
    .filter((one): one is { item: Item; score: number } => one.score !== null)
    .sort((a, b) => b.score - a.score)
    .map(({ item }) => item);
}
