/** The view of the data path for the admin server: plain data, sent between threads. @module */

import type { EndpointSummary } from "../../balance/mod.ts";
import type {
  Sample,
  TrafficExemplars,
  TrafficFault,
  TrafficKey,
  TrafficNumbers,
} from "../../base/mod.ts";
import type { PluginView } from "../../plugin/mod.ts";
import type { Protocol } from "../../snapshot/mod.ts";

export interface RequestView {
  /** The `x-request-id`. */
  readonly id: string;
  readonly method: string;
  readonly authority: string;
  /** The normalized path without its query, which may contain secrets. */
  readonly path: string;
  /** Status of the response; 0: none yet. */
  readonly status: number;
  /** Address of the endpoint; `""`: not sent yet. */
  readonly endpoint: string;
  /** Intention and permission that allowed it; `""`: it was not judged. */
  readonly rule: string;
  readonly ageMs: number;
  readonly idleMs: number;
  /** Bytes of the bodies, from the downstream and to it. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/** The requests of a connection that carries HTTP. */
export interface RequestsView {
  /** `HTTP/1.1` or `HTTP/2`. */
  readonly version: string;
  readonly open: number;
  /** Open and completed requests. */
  readonly total: number;
  /** Without any. */
  readonly idleMs: number;
  readonly oldest: readonly RequestView[];
}

export interface ConnectionView {
  readonly id: string;
  /** `inbound`, or the upstream's id. */
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  /** SPIFFE URI of a mesh peer, or the address of the local app. */
  readonly source: string;
  readonly destination: string;
  readonly remote: string;
  /** Address of the endpoint; `""`: none dialled yet. */
  readonly endpoint: string;
  readonly stage: string;
  readonly ageMs: number;
  readonly idleMs: number;
  /** Bytes from the downstream and to it. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
  readonly rule: string;
  readonly tlsVersion: string;
  readonly resumed: boolean;
  /** `null`: the connection carries bytes. */
  readonly http: RequestsView | null;
}

export interface ListenerView {
  readonly name: string;
  readonly direction: "inbound" | "outbound";
  readonly address: string;
  /** Protocols with callers and with endpoints. */
  readonly protocol: Protocol;
  readonly state: "listening" | "draining" | "failed";
  /** Why the listener is not bound. */
  readonly error: string;
  /** Why the listener refuses every connection now; `""`: it does not. */
  readonly fault: string;
  /** Warnings about a listener that carries traffic, each in words that follow its name. */
  readonly warnings: readonly string[];
  readonly connections: number;
}

/** An endpoint that is not picked for a while; it may be handed over to the next process. */
export interface Ejection {
  /** The key of the target. */
  readonly target: string;
  readonly address: string;
  readonly forMs: number;
}

export interface EndpointView extends EndpointSummary {
  readonly target: string;
}

/** Requests and connections that ended, and errors: failed here, status 5xx, a gRPC status like it, broken. */
export interface TrafficRowView extends TrafficKey, TrafficNumbers {
  readonly sumMs: number;
  /** From the caller, and to it; those of open connections included. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
  readonly open: number;
  /** The last one to two periods; absent: without a request. */
  readonly recent?: TrafficNumbers;
  /** Reasons of the errors; absent: there were none. */
  readonly faults?: readonly TrafficFault[];
  /** Absent: no request had a trace. */
  readonly exemplars?: TrafficExemplars;
}

/** One refusal, or the last of some that are the same. */
export interface RefusalView {
  readonly at: number;
  readonly direction: "inbound" | "outbound";
  /** Service of the caller; the address of one that has no identity. */
  readonly caller: string;
  /** `inbound`, or the label of the upstream. */
  readonly listener: string;
  readonly code: string;
  readonly rule: string;
  /** The service of the upstream whose proxy refused, and its rule where that is told; `""`: this proxy. */
  readonly deniedBy: string;
  /** Without its query; `""`: a connection. */
  readonly path: string;
  /** 0: none was sent. */
  readonly status: number;
  readonly count: number;
}

/** An upstream refuses, or answers in place of its application, and did so within the last minute. */
export interface RefusingView {
  /** Its label. */
  readonly upstream: string;
  /** Service of the caller, which is this proxy's. */
  readonly caller: string;
  readonly code: string;
  /** The service whose proxy refuses. */
  readonly deniedBy: string;
  readonly unit: "requests" | "connections";
  /** Number of the last minute. */
  readonly count: number;
  /** The last time. */
  readonly at: number;
  /** The last request, and the address of the instance that refused it; absent: a connection. */
  readonly last?: {
    readonly method: string;
    /** Without its query. */
    readonly path: string;
    readonly endpoint: string;
  };
}

export interface SlowRequestView {
  readonly at: number;
  readonly caller: string;
  /** `""`: inbound. */
  readonly upstream: string;
  readonly method: string;
  /** Without its query. */
  readonly path: string;
  readonly status: number;
  readonly durationMs: number;
  readonly endpoint: string;
}

export interface TrafficView {
  /** How long the rows have counted. */
  readonly sinceMs: number;
  readonly rows: readonly TrafficRowView[];
  /** How long the `recent` numbers of the rows have counted. */
  readonly recentMs: number;
  /** Sums of rows that gave way, by endpoint and target: what counts them must not decrease. */
  readonly past: readonly TrafficRowView[];
  /** Newest first. */
  readonly refusals: readonly RefusalView[];
  /** Slowest first. */
  readonly slow: readonly SlowRequestView[];
}

/** Which parts of a {@link DataView} are wanted besides the small ones. */
export interface ViewOptions {
  readonly connections: boolean;
  /** Default true. */
  readonly samples?: boolean;
}

export interface DataView {
  readonly worker: number;
  readonly snapshotVersion: number;
  readonly listeners: readonly ListenerView[];
  readonly connections: readonly ConnectionView[];
  readonly endpoints: readonly EndpointView[];
  readonly refusing: readonly RefusingView[];
  readonly plugins: readonly PluginView[];
  readonly samples: readonly Sample[];
  /** Empty without samples. */
  readonly traffic: TrafficView;
}

export const NO_TRAFFIC: TrafficView = {
  sinceMs: 0,
  rows: [],
  recentMs: 0,
  past: [],
  refusals: [],
  slow: [],
};
