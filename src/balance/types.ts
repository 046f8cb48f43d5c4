/**
 * Types of balancing: endpoints, policies of picks, policies of ejections.
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

/** The balancing policy of the discovery chain. */
export type { LoadBalancing } from "../chain/mod.ts";

/** Passive health; Envoy's defaults unless the upstream sets them (consul reference 3.7). */
export interface OutlierPolicy {
  /** Failures in a row that eject. */
  readonly maxFailures: number;
  /** Chance in percent that a due ejection happens. */
  readonly enforcingPercent: number;
  readonly intervalMs: number;
  readonly baseEjectionMs: number;
  readonly maxEjectionMs: number;
  /** At most this share of a target's endpoints; one may always be ejected. */
  readonly maxEjectionPercent: number;
}
