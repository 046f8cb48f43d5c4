/** The view of the data path for the admin server: plain data, sent between threads. @module */

import type { EndpointSummary } from "../../balance/mod.ts";
import type { Sample } from "../../base/mod.ts";
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

export interface EndpointView extends EndpointSummary {
  readonly target: string;
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
  readonly plugins: readonly PluginView[];
  readonly samples: readonly Sample[];
}
