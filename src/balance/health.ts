/**
 * What an instance's checks and weights make of it: dialled or not, and how often (consul reference
 * 3.8).
 *
 * @module
 */

export interface InstanceHealth {
  /** The worst of the checks; maintenance mode is a critical one. */
  readonly health: "passing" | "warning" | "critical";
  readonly weights: { readonly passing: number; readonly warning: number };
}

export type Usability =
  | { readonly usable: true; readonly weight: number }
  | { readonly usable: false; readonly weight: 0 };

const UNUSABLE: Usability = { usable: false, weight: 0 };

/** Warning counts as healthy, with its own weight, unless the subset takes passing ones only. */
export function judgeHealth(
  { health, weights }: InstanceHealth,
  options: { readonly onlyPassing: boolean },
): Usability {
  if (health === "critical" || (health === "warning" && options.onlyPassing)) return UNUSABLE;
  const weight = health === "passing" ? weights.passing : weights.warning;
  // Written so that NaN is unusable, too.
  return weight >= 1 ? { usable: true, weight: Math.min(Math.floor(weight), 128) } : UNUSABLE;
}
