import type { Group } from "../../api/types";

type Reason = Exclude<Group["zero_gradient"], "">;

/** Why no gradient comes from a group. */
export const ZERO_GRADIENT: Record<Reason, { label: string; meaning: string }> = {
  all_solved: { label: "all solved", meaning: "Every valid member has the reward 1: no member is better than another, so every advantage is 0." },
  none_solved: { label: "none solved", meaning: "Every valid member has the reward 0: no member is better than another, so every advantage is 0." },
  equal_rewards: { label: "equal rewards", meaning: "All valid members have the same reward, so every advantage is 0." },
  too_few_valid: { label: "too few valid", meaning: "Fewer valid members than a baseline needs: the group was dropped, nothing of it was trained." },
};
