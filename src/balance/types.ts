/**
 * What balancing works on: endpoints, how to pick, when to eject.
 *
 * @module
 */

/** One instance that may be dialled. */
export interface Endpoint {
  /** Unique within its target: node and service id. */
  readonly id: string;
  readonly host: string;
  readonly port: number;
  /** 1..128, from the instance's weight for its health. */
  readonly weight: number;
}

/** How an endpoint is picked: what the discovery chain says. */
export type { LoadBalancing } from "../chain/mod.ts";

/** Passive health; Envoy's defaults unless the upstream says otherwise (consul reference 3.7). */
export interface OutlierPolicy {
  /** Failures in a row that eject. */
  readonly maxFailures: number;
  /** Chance in percent that a due ejection happens. */
  readonly enforcingPercent: number;
  readonly intervalMs: number;
  readonly baseEjectionMs: number;
  readonly maxEjectionMs: number;
  /** At most this share of a target's endpoints; one may always go. */
  readonly maxEjectionPercent: number;
}
