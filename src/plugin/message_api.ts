/** The part of the contract with requests, responses and connections. It imports nothing. @module */

export interface RequestArgs<R = unknown> {
  readonly request: HttpRequest;
  readonly exchange: Exchange;
  /** `undefined` before the route is known. */
  readonly route: Route | undefined;
  readonly routeConfig: R | undefined;
}
export interface HttpRequest {
  readonly method: string;
  /** `http` or `https`; `""`: the caller did not send it. */
  readonly scheme: string;
  /** Host, and port where the caller sent one. */
  readonly authority: string;
  /** From `/` on, with the query, in the one normalized form that is authorized, matched and sent on. */
  readonly path: string;
  /** The requested protocol of the connection, as `websocket`; `""`: none. */
  readonly upgrade: string;
  readonly headers: Headers;
  readonly body: Body | null;
  with(change: RequestChange): HttpRequest;
}
export type RequestChange = MessageChange & {
  method?: string;
  authority?: string;
  path?: string;
};
export type MessageChange = {
  readonly headers?: Headers | HeaderChange;
  readonly body?: BodyContent;
};
export interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  /** `null` also where an upgrade is accepted (101): plugins see and change none of its bytes. */
  readonly body: Body | null;
  /** The endpoint that answered; `null`: the proxy or a plugin did. */
  readonly endpoint: Endpoint | null;
  /** Why the proxy made this response itself; `null`: it came from an endpoint or a plugin. */
  readonly failure: Failure | null;
  with(change: ResponseChange): HttpResponse;
}
export type ResponseChange = MessageChange & { readonly status?: number };
export interface Failure {
  /** As in the access log: `no_endpoint`, `endpoint_reset`, `response_timed_out`. */
  readonly code: string;
  readonly reason: string;
  /** An endpoint received the request and may have acted on it. */
  readonly wasSent: boolean;
  /** The endpoint that received the request, or could not be reached. */
  readonly endpoint: Endpoint | null;
}
/** Header fields in order, names in lower case. Framing fields, `host` and `connection` are left out. */
export interface Headers extends Iterable<readonly [name: string, value: string]> {
  /** The first value of that name, in any case. */
  get(name: string): string | undefined;
  all(name: string): readonly string[];
  with(change: HeaderChange): Headers;
}
/** Applied in this order. `remove` and `set` of `x-user` remove `x_user` as well. */
export type HeaderChange = {
  readonly remove?: readonly string[];
  /** Replaces all fields of that name. */
  readonly set?: Values;
  readonly add?: Values;
};
export type Values = { readonly [name: string]: string };
/** The content of a body; `null`: no body. */
export type BodyContent = string | Bytes | ReadableStream<Uint8Array> | Body | null;
export type Bytes = Uint8Array<ArrayBuffer>;

/** A body streams through unless a plugin opens it, which can be done once. */
export interface Body {
  /** The announced length in bytes; `null`: it is not known before the end. */
  readonly length: number | null;
  /** A plugin that opens a body passes on a body to send in its place. */
  stream(): ReadableStream<Uint8Array>;
  /**
   * The whole body; rejects if it is longer than `limitBytes`. A hook that does not catch this refuses the
   * message, with 413 or 502, and does not count as failed.
   */
  bytes(limitBytes: number): Promise<Bytes>;
  /** Keeps up to so many bytes as they pass, to be sent again (phase `retry`) or by a {@link Call}. */
  keep(limitBytes: number): void;
  /** All that was read so far is kept. It changes while the body passes: read it after an attempt. */
  readonly isReplayable: boolean;
}

/** One request and its response. */
export interface Exchange {
  /** The `x-request-id`. */
  readonly id: string;
  readonly connection: Connection;
  /** Aborts when the caller no longer waits for the response. */
  readonly signal: AbortSignal;
  get<T>(key: StateKey<T>): T | undefined;
  set<T>(key: StateKey<T>, value: T): void;
  onEnd(callback: (summary: ExchangeSummary) => void): void;
  /** Begins a span below that of the exchange; none is made where it is not traced, or has 16 already. */
  span(name: string): Span;
}
/** A part of the time of an exchange. It ends with the exchange at the latest. */
export interface Span {
  /** The field of that name for calls within it; `""`: there is no span. */
  readonly traceparent: string;
  /** At most 16 attributes, and 256 characters of a text. Only the first call counts. */
  end(attributes?: { readonly [name: string]: string | number }): void;
}
/** The key of a value on an exchange. Layers that share the key object share the value. */
export type StateKey<T> = {
  readonly description: string;
  readonly "~type"?: T;
};
export type ExchangeSummary = {
  /** 0: there was no response. */
  readonly status: number;
  readonly attempts: number;
  readonly durationMs: number;
  /** Bytes of the bodies, and of the connection after an upgrade: from the caller, and to it. */
  readonly receivedBytes: number;
  readonly sentBytes: number;
  /** `""`: nothing failed. */
  readonly code: string;
  readonly endpoint: Endpoint | null;
};

/** The caller's connection, as its handshake proved it. */
export interface Connection {
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  /** As `10.0.0.7:40312`. */
  readonly remoteAddress: string;
  /** The identity that the proxy presented, as a URI; `""`: none. */
  readonly ownUri: string;
  /** The proven identity; `null`: the caller showed no certificate, as a local application does. */
  readonly source: Identity | null;
}
/** All but `uri` are `""` if the URI does not name a Consul service. */
export type Identity = {
  readonly uri: string;
  readonly trustDomain: string;
  readonly datacenter: string;
  readonly partition: string;
  readonly namespace: string;
  readonly service: string;
};
/** A branch of a chain's router, or its only route. */
export type Route = {
  readonly name: string;
  readonly service: string;
  /** `null`: takes every request that no other route took. */
  readonly match: RouteMatch | null;
};
/** All conditions must hold. A `path` of `null` and an empty list match anything. */
export interface RouteMatch {
  readonly path: {
    readonly kind: "exact" | "prefix" | "regex";
    readonly value: string;
  } | null;
  readonly ignoreCase: boolean;
  readonly methods: readonly string[];
  readonly headers: readonly ValueMatch[];
  readonly query: readonly ValueMatch[];
}
export type ValueMatch = {
  readonly kind: "present" | "exact" | "prefix" | "suffix" | "contains" | "regex";
  readonly name: string;
  readonly value: string;
  readonly ignoreCase: boolean;
  readonly invert: boolean;
};
/** As `10.0.0.9:8080`. */
export type Endpoint = { readonly address: string };
