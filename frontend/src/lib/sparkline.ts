/** Values as an SVG path in a box: a missing value breaks the line, a constant lies in the middle, a lone value is a dot. */
export function sparklinePath(values: readonly (number | null)[], width: number, height: number): string {
  const known = values.filter((value) => value !== null && Number.isFinite(value)) as number[];
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  const stride = values.length > 1 ? width / (values.length - 1) : 0;
  const y = (value: number) => (span === 0 ? height / 2 : height - ((value - low) / span) * height);
  let isOpen = false;
  return values
    .map((value, index) => {
      if (value === null || !Number.isFinite(value)) {
        isOpen = false;
        return "";
      }
      const at = `${round(index * stride)} ${round(y(value))}`;
      const piece = isOpen ? `L${at}` : `M${at}h0`;
      isOpen = true;
      return piece;
    })
    .join("");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
