/**
 * Health and weight of an instance, from its checks and weights: whether and how often it is dialled
 * (consul reference 3.8).
 *
 * @module
 */

export interface InstanceHealth {
  /** The worst status of its checks; maintenance mode is a critical check. */
  readonly health: "passing" | "warning" | "critical";
  readonly weights: { readonly passing: number; readonly warning: number };
}

export type Usability =
  | { readonly usable: true; readonly weight: number }
  | { readonly usable: false; readonly weight: 0 };

const UNUSABLE: Usability = { usable: false, weight: 0 };

/** Warning counts as healthy, with its own weight, unless the subset takes passing instances only. */
export function judgeHealth(
  { health, weights }: InstanceHealth,
  options: { readonly onlyPassing: boolean },
): Usability {
  if (health === "critical" || (health === "warning" && options.onlyPassing)) return UNUSABLE;
  const weight = health === "passing" ? weights.passing : weights.warning;
  // Written so that NaN is unusable, too.
  return weight >= 1 ? { usable: true, weight: Math.min(Math.floor(weight), 128) } : UNUSABLE;
}
