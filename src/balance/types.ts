/** Types of balancing: endpoints, policies of picks, policies of ejections. @module */

import { formatAddress, type TrafficRow } from "../base/mod.ts";

export interface Endpoint {
  /** Unique within its target: node and service id. */
  readonly id: string;
  readonly host: string;
  readonly port: number;
  /** 1..128, from the instance's weight for its health. */
  readonly weight: number;
}

/** Consul's service id, where Consul gave the id (`dc1/node/service-id`), else the address. */
export function instanceName({ id, host, port }: Endpoint): string {
  return id.slice(id.lastIndexOf("/") + 1) || formatAddress({ kind: "tcp", host, port });
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

/** An endpoint and its health. Changed only by its pool; compared by identity. */
export interface EndpointState {
  readonly endpoint: Endpoint;
  /** Leases out now. */
  readonly active: number;
  /** Failures in a row. */
  readonly failures: number;
  readonly ejected: boolean;
  /** End of the last ejection, on the pool's clock; 0: there was none. */
  readonly ejectedUntilMs: number;
  readonly lastResort: boolean;
  /** Rows of the traffic table that count it, found once for each caller and route. */
  readonly traffic: TrafficRow[];
}

/** {@link EndpointState} as the pool sees it. */
export class EndpointRecord implements EndpointState {
  readonly key: string;
  endpoint: Endpoint;
  /** 1..128 whatever the endpoint says. */
  weight: number;
  lastResort: boolean;
  active = 0;
  failures = 0;
  /** The last failure; `""`: it answered since. */
  lastFailure = "";
  /** Time of `lastFailure`, on the pool's clock. */
  failedMs = 0;
  /** Time of the last good answer, on the pool's clock; -1: there was none. */
  answeredMs = -1;
  ejected = false;
  ejectedUntilMs = 0;
  /** The pool's number of answers when this endpoint began to refuse; -1: it does not. */
  answersBefore = -1;
  /** Recent ejections; the next one lasts longer by each. */
  timesEjected = 0;
  readonly traffic: TrafficRow[] = [];

  constructor(key: string, endpoint: Endpoint, lastResort: boolean) {
    this.key = key;
    this.endpoint = endpoint;
    this.weight = boundedWeight(endpoint.weight);
    this.lastResort = lastResort;
  }
}

/** An endpoint that keeps id, host and port stays the same one. */
export function keyOf(endpoint: Endpoint): string {
  return `${endpoint.host} ${endpoint.port} ${endpoint.id}`;
}

/** Tables loop over weights, so a wrong one must not get there. */
export function boundedWeight(weight: number): number {
  // Written so that NaN weighs 1, too.
  return Math.min(Math.max(Math.floor(weight), 1) || 1, 128);
}

export type Excluded = ReadonlySet<unknown> | undefined;
