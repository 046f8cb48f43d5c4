/**
 * What can be seen of the data path from outside: plain data that a worker sends to the main thread
 * when somebody asks.
 *
 * @module
 */

import type { EndpointSummary } from "../balance/mod.ts";
import type { Sample } from "../base/mod.ts";

export interface ConnectionView {
  readonly id: string;
  /** `inbound`, or the upstream's id. */
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  /** SPIFFE URI of a mesh peer, or the address of the local app. */
  readonly source: string;
  readonly destination: string;
  readonly remote: string;
  /** Address that was dialled, `""` while none is. */
  readonly endpoint: string;
  readonly stage: string;
  readonly ageMs: number;
  readonly idleMs: number;
  /** Bytes from the downstream and to it. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
  /** Rule that allowed it. */
  readonly rule: string;
  readonly tlsVersion: string;
  readonly resumed: boolean;
}

export interface ListenerView {
  readonly name: string;
  readonly direction: "inbound" | "outbound";
  readonly address: string;
  readonly state: "listening" | "draining" | "failed";
  /** Why it is not bound. */
  readonly error: string;
  /** Why it listens and yet refuses every connection now; `""`: it does not. */
  readonly fault: string;
  readonly connections: number;
}

export interface EndpointView extends EndpointSummary {
  readonly target: string;
}

/** All of one data path at one moment. */
export interface DataView {
  readonly worker: number;
  readonly snapshotVersion: number;
  readonly listeners: readonly ListenerView[];
  readonly connections: readonly ConnectionView[];
  readonly endpoints: readonly EndpointView[];
  readonly samples: readonly Sample[];
}
