/**
 * What can be seen of the data path from outside: plain data that a worker sends to the main thread
 * when somebody asks.
 *
 * @module
 */

import type { EndpointSummary } from "../../balance/mod.ts";
import type { Sample } from "../../base/mod.ts";
import type { PluginView } from "../../plugin/mod.ts";
import type { Protocol } from "../../snapshot/mod.ts";

/** A request that is not over. */
export interface RequestView {
  /** Of its `x-request-id`. */
  readonly id: string;
  readonly method: string;
  readonly authority: string;
  /** As it was judged and sent on, without its query, which is nobody's business. */
  readonly path: string;
  /** What was answered so far; 0: nothing. */
  readonly status: number;
  /** Where it was sent; `""`: nobody takes it yet. */
  readonly endpoint: string;
  /** Intention and permission that let it in; `""`: nobody was asked. */
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
  /** Open ones and those before them. */
  readonly total: number;
  /** Without any. */
  readonly idleMs: number;
  /** The oldest of them. */
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
  /** `null`: it carries bytes. */
  readonly http: RequestsView | null;
}

export interface ListenerView {
  readonly name: string;
  readonly direction: "inbound" | "outbound";
  readonly address: string;
  /** Spoken with its callers and behind it. */
  readonly protocol: Protocol;
  readonly state: "listening" | "draining" | "failed";
  /** Why it is not bound. */
  readonly error: string;
  /** Why it listens and yet refuses every connection now; `""`: it does not. */
  readonly fault: string;
  /** What is wrong while it carries traffic, each as what follows its name. */
  readonly warnings: readonly string[];
  readonly connections: number;
}

export interface EndpointView extends EndpointSummary {
  readonly target: string;
}

/** Which parts of a {@link DataView} are wanted besides the small ones. */
export interface ViewOptions {
  readonly connections: boolean;
  /** Default true. */
  readonly samples?: boolean;
}

/** All of one data path at one moment. */
export interface DataView {
  readonly worker: number;
  readonly snapshotVersion: number;
  readonly listeners: readonly ListenerView[];
  readonly connections: readonly ConnectionView[];
  readonly endpoints: readonly EndpointView[];
  readonly plugins: readonly PluginView[];
  readonly samples: readonly Sample[];
}
