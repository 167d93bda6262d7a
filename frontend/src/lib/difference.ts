/** One curve held against another: what lies between them at the places of the first. */
import type { Prepared } from "./series";

/** Both lines smoothed alike; the base is read between its points. Null where the base has not been. */
export function differenceTo(base: Prepared, curve: Prepared): Prepared {
  const known = base.x.flatMap((x, index) => {
    const value = base.mean[index];
    return value == null ? [] : [{ x, value }];
  });
  const less = (values: readonly (number | null)[]) =>
    values.map((value, index) => {
      const place = curve.x[index];
      const other = place === undefined ? null : between(known, place);
      return value === null || other === null ? null : value - other;
    });
  const mean = less(curve.mean);
  return { x: curve.x, raw: mean, mean, edges: [], ghosts: [], resumes: curve.resumes };
}

function between(points: readonly { x: number; value: number }[], x: number): number | null {
  const after = points.findIndex((point) => point.x >= x);
  const right = points[after];
  if (right === undefined) return null;
  if (right.x === x) return right.value;
  const left = points[after - 1];
  if (left === undefined) return null;
  return left.value + ((right.value - left.value) * (x - left.x)) / (right.x - left.x);
}
