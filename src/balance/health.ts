/**
 * Health of endpoints. By its checks and weights: whether and how often an instance is dialled (consul reference
 * 3.8). Passive: an endpoint that fails several times in a row is ejected for a while, longer each time it
 * happens again. One difference from Envoy: a single endpoint may be ejected however small the target is.
 *
 * @module
 */

import type { EndpointRecord, OutlierPolicy } from "./types.ts";

/** Envoy's defaults, which Consul does not change. */
export const DEFAULT_OUTLIER: OutlierPolicy = {
  maxFailures: 5,
  enforcingPercent: 100,
  intervalMs: 10_000,
  baseEjectionMs: 30_000,
  maxEjectionMs: 300_000,
  maxEjectionPercent: 10,
};

/**
 * The defaults with an upstream's `passive_health_check` over them. As Consul does, 0 means "not set"
 * for `maxFailures` and `intervalMs`; elsewhere it is a value: `enforcingPercent` 0 ejects never.
 */
export function outlierPolicy(overrides: Partial<OutlierPolicy>): OutlierPolicy {
  const policy = { ...DEFAULT_OUTLIER, ...overrides };
  return {
    ...policy,
    maxFailures: policy.maxFailures || DEFAULT_OUTLIER.maxFailures,
    intervalMs: policy.intervalMs || DEFAULT_OUTLIER.intervalMs,
    // Envoy: the ceiling is never below one ejection.
    maxEjectionMs: Math.max(policy.maxEjectionMs, policy.baseEjectionMs),
  };
}

/** Counts one failure; true: an ejection is due, and the count starts again. */
export function countFailure(record: EndpointRecord, policy: OutlierPolicy): boolean {
  record.failures++;
  if (policy.maxFailures < 1 || record.failures < policy.maxFailures) return false;
  record.failures = 0;
  return true;
}

/** Whether one more may be ejected, within the policy's share; one always, unless it is 0. */
export function mayEject(ejected: number, size: number, policy: OutlierPolicy): boolean {
  const { maxEjectionPercent } = policy;
  if (maxEjectionPercent <= 0) return false;
  return ejected === 0 || 100 * (ejected + 1) <= maxEjectionPercent * size;
}

/** Ejects for the base time times its recent ejections; each interval since forgets one. */
export function eject(record: EndpointRecord, nowMs: number, policy: OutlierPolicy): void {
  const { baseEjectionMs, maxEjectionMs, intervalMs } = policy;
  const healthyMs = Math.max(0, nowMs - record.ejectedUntilMs);
  const forgotten = intervalMs > 0 ? Math.floor(healthyMs / intervalMs) : record.timesEjected;
  record.timesEjected = Math.max(0, record.timesEjected - forgotten);
  // Further beyond the maximum it would only take longer to be forgotten.
  if (record.timesEjected * baseEjectionMs < maxEjectionMs + baseEjectionMs) record.timesEjected++;
  record.ejected = true;
  record.ejectedUntilMs = nowMs +
    Math.min(record.timesEjected * baseEjectionMs, Math.max(maxEjectionMs, baseEjectionMs));
}

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
