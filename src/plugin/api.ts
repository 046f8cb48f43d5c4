/**
 * The contract between the proxy and a plugin: types only, no code, and nothing else to read.
 *
 * A plugin is a module whose default export is a {@link PluginDefinition}; importing it has no effect. Its
 * layers stand around each other in the order of their {@link Phase}: a request passes them on its way in,
 * its response on the way out. They are given values; what shall differ is handed on (`next`) or back.
 *
 * @module
 */

/**
 * Outermost first, then as configured. `guard`: before the route is known. `route`: picks it. `filter`: on
 * it. `retry`: may call `next` again. `attempt`: around each try. Of `route` and `retry` one per listener.
 */
export type Phase = "guard" | "route" | "filter" | "retry" | "attempt";

/** Standard Schema 1 (standardschema.dev), as valibot, zod and arktype make them. */
export interface Schema<Output = unknown> {
  readonly "~standard": Readonly<
    { version: 1; validate: (value: unknown) => unknown; types?: { output: Output } | undefined }
  >;
}
export type OutputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["output"];

/** `export default { ... } satisfies PluginDefinition<typeof Config>`. */
export interface PluginDefinition<C extends Schema = Schema, R extends Schema = Schema> {
  /** Key in configuration, part of its metrics' names, field of its log lines: `snake_case`. */
  readonly name: string;
  readonly api: 1;
  readonly phase: Phase;
  /** Configuration for a listener; make it strict, so that a misspelled key is an error. */
  readonly config: C;
  /** Configuration for one route; absent: it takes none. A guard's hook is called again on such a route. */
  readonly routeConfig?: R;
  /** Called for each generation of configuration, before it serves; at most 5 s. */
  create(host: Host, config: OutputOf<C>): Plugin<OutputOf<R>> | Promise<Plugin<OutputOf<R>>>;
}

/** A plugin at work. Absent hooks cost nothing. */
export interface Plugin<R = unknown> {
  /** A caller was let in, and no byte of it was carried yet. Hand a refusal back, or nothing. */
  onConnection?(connection: Connection): Refusal | void | Promise<Refusal | void>;
  /**
   * Around everything further in. `return next()` goes on, `return next({ request, response })` with
   * changes; `return host.reply(...)` answers. Without `async` no promise is made.
   */
  onRequest?(args: RequestArgs<R>, next: Next): Answer;
  /** Phase `route` only, when routes changed: what looks one up for a request. */
  onRoutes?(routes: readonly Route[]): FindRoute | Promise<FindRoute>;
  /** Once, after the last exchange of its generation. */
  close?(): void | Promise<void>;
}

/** A response, or one that comes. What `next` gave may be handed back as it is, or awaited. */
export type Answer = HttpResponse | PromiseLike<HttpResponse>;
export type FindRoute = (request: HttpRequest) => Route | undefined;
/** Goes on inwards. Only phase `retry` may do so again; the response before is given up by that. */
export type Next = (change?: Change) => Answer;
export interface Change {
  /** Goes on in place of the one that was given. */
  readonly request?: HttpRequest;
  /** What becomes of the response: like awaiting `next`, without a promise. */
  readonly response?: (response: HttpResponse) => Answer;
  /** Phase `retry`: endpoints that shall not be picked while there are others. */
  readonly avoid?: readonly Endpoint[];
  /** No response began so long after the request was complete: a failure `response_timed_out`. */
  readonly timeoutMs?: number;
  /** In place of the listener's: nothing of the exchange moved for so long. 0: it may for ever. */
  readonly idleTimeoutMs?: number;
}
export interface RequestArgs<R = unknown> {
  readonly request: HttpRequest;
  readonly exchange: Exchange;
  /** `undefined` before it is known. */
  readonly route: Route | undefined;
  readonly routeConfig: R | undefined;
}
export interface HttpRequest {
  readonly method: string;
  /** `http` or `https`; `""`: the caller did not say. */
  readonly scheme: string;
  /** Host, with a port where there is one. */
  readonly authority: string;
  /** From `/` on, with the query, in the one form that was judged, is matched and is sent on. */
  readonly path: string;
  /** What it asks the connection to become, as `websocket`; `""`: nothing. */
  readonly upgrade: string;
  readonly headers: Headers;
  readonly body: Body | null;
  with(change: RequestChange): HttpRequest;
}
export type RequestChange = MessageChange & { [of in "method" | "authority" | "path"]?: string };
export type MessageChange = Readonly<{ headers?: Headers | HeaderChange; body?: BodyContent }>;
export interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body | null;
  /** Who answered; `null`: the proxy or a plugin did. */
  readonly endpoint: Endpoint | null;
  /** Why nobody answered; `null`: somebody did. */
  readonly failure: Failure | null;
  with(change: ResponseChange): HttpResponse;
}
export type ResponseChange = MessageChange & Readonly<{ status?: number }>;
export interface Failure {
  /** As in the access log: `no_endpoint`, `endpoint_reset`, `response_timed_out`. */
  readonly code: string;
  readonly reason: string;
  /** An endpoint had the request, and may have acted on it. */
  readonly wasSent: boolean;
  /** That one, or the one that could not be reached. */
  readonly endpoint: Endpoint | null;
}
/** Fields in their order; names in lower case. Framing, `host` and `connection` are not among them. */
export interface Headers extends Iterable<readonly [name: string, value: string]> {
  /** The first of that name, in any case. */
  get(name: string): string | undefined;
  all(name: string): readonly string[];
  with(change: HeaderChange): Headers;
}
/** First `remove`, then `set` (all of that name; both also of `x_user` for `x-user`), then `add`. */
export type HeaderChange = Readonly<{ remove?: readonly string[]; set?: Values; add?: Values }>;
export type Values = Readonly<Record<string, string>>;
/** What a body can be made of; `null`: there is none. */
export type BodyContent = string | Bytes | ReadableStream<Uint8Array> | Body | null;
export type Bytes = Uint8Array<ArrayBuffer>;

/** Passes through as it comes, unless somebody opens it, which can be done once. */
export interface Body {
  /** Bytes that were announced; `null`: its end will tell. */
  readonly length: number | null;
  /** Whoever opens it hands on what shall be sent in its place. */
  stream(): ReadableStream<Uint8Array>;
  /**
   * All of it; rejects where it is longer than `limitBytes`. A hook that lets that pass refuses the message
   * for its sender's sake, 413 or 502, and did not fail itself.
   */
  bytes(limitBytes: number): Promise<Bytes>;
  /** Keeps up to so many bytes as they pass: to be sent again (phase `retry`), or by a {@link Call}. */
  keep(limitBytes: number): void;
  /** All that was read of it is kept. Changes while it passes: ask after an attempt, not before. */
  readonly isReplayable: boolean;
}

/** One request and its response. */
export interface Exchange {
  /** The `x-request-id`. */
  readonly id: string;
  readonly connection: Connection;
  /** Aborts when nobody waits for the response any more. */
  readonly signal: AbortSignal;
  get<T>(key: StateKey<T>): T | undefined;
  set<T>(key: StateKey<T>, value: T): void;
  onEnd(callback: (summary: ExchangeSummary) => void): void;
}
/** A slot on an exchange, which layers share by sharing the object. */
export type StateKey<T> = Readonly<{ description: string; "~type"?: T }>;
/** `status` 0: nothing was answered; `code` `""`: nothing failed. */
export type ExchangeSummary =
  & Readonly<Record<"status" | "attempts" | "durationMs", number>>
  & Readonly<{ code: string; endpoint: Endpoint | null }>;

/** Who calls whom, by the handshake; `remoteAddress`: `10.0.0.7:40312`; `ownUri`: shown to it, or `""`. */
export interface Connection {
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  readonly remoteAddress: string;
  readonly ownUri: string;
  /** Proven; `null`: it showed no certificate, as a local application does. */
  readonly source: Identity | null;
}
/** All but `uri` are `""` where that is no name of a Consul service. */
export type Identity =
  & Readonly<Record<"uri" | "trustDomain" | "datacenter", string>>
  & Readonly<Record<"partition" | "namespace" | "service", string>>;
/** A branch of a chain's router, or the only way; `match` `null`: takes what no other took. */
export type Route = Readonly<{ name: string; service: string; match: RouteMatch | null }>;
/** All of it must be so; `path` `null` and an empty list: any. */
export interface RouteMatch {
  readonly path: Readonly<{ kind: "exact" | "prefix" | "regex"; value: string }> | null;
  readonly ignoreCase: boolean;
  readonly methods: readonly string[];
  readonly headers: readonly ValueMatch[];
  readonly query: readonly ValueMatch[];
}
export type ValueMatch =
  & Readonly<{ name: string; value: string; ignoreCase: boolean; invert: boolean }>
  & Readonly<{ kind: "present" | "exact" | "prefix" | "suffix" | "contains" | "regex" }>;
/** `10.0.0.9:8080`. */
export type Endpoint = { readonly address: string };

/** What the proxy lends a plugin while a generation serves. */
export interface Host {
  readonly log: Log;
  readonly stats: Stats;
  readonly clock: Clock;
  readonly listener: string;
  /** Threads that serve the listener, each with plugins of its own, and which this is, from 0. */
  readonly worker: { readonly index: number; readonly count: number };
  random(): number;
  /** Aborts when the generation is over. */
  readonly signal: AbortSignal;
  /** In RE2's language, which costs no more than a text is long; it has to match all of one. */
  regex(pattern: string): Promise<(text: string) => boolean>;
  reply(status: number, headers?: Values, body?: string): HttpResponse;
  /** The proxy's own answer to who is turned away, to gRPC in its words; `unauthenticated` tells why. */
  refuse(as: RefusedAs, reason: string): Refusal;
  /** What writes a line of the access log: text, or values, with its `%` operators; `""`: the default. */
  accessLog(format: string | object): (ended: ExchangeSummary) => void;
  /** Its bytes, compressed; what there is leaves whenever more of the body has to be waited for. */
  compress(body: Body, coding: "gzip" | "br" | "zstd"): ReadableStream<Uint8Array>;
  /** Makes a header's value, with an access log's `%` operators; `""`: it has nothing to say. */
  headerValue(text: string): (args: RequestArgs, response?: HttpResponse) => string;
  /** Outlives a reload: made once for each key of this plugin, gone with its last user. */
  shared<T extends object>(key: string, make: () => T): T;
  /** The same for all workers: cells for `Atomics`, zeros at first; one length for a key, for good. */
  sharedCells(key: string, length: number): Promise<Int32Array<SharedArrayBuffer>>;
  /** In `create`: an upstream (past its plugins), `127.0.0.1:9191` or `unix:///x` to ask; else throws. */
  callee(target: string, options?: { readonly http2?: boolean }): Call;
  /** In the background: started again with a growing pause when it throws, aborted with the generation. */
  spawn(name: string, task: (signal: AbortSignal) => Promise<void>): void;
}
/** Without more: `GET /`. All of the answer comes, or its `failure`; gRPC's status is among its headers. */
export type Call = (request: RequestChange, terms: Terms) => Promise<HttpResponse>;
/** `limitBytes`: of the answer's body, more is a failure; absent: the body is dropped as it comes. */
export type Terms = Readonly<{ timeoutMs: number; limitBytes?: number; signal?: AbortSignal }>;
export type RefusedAs = "denied" | "unauthenticated" | "rate_limited" | "overloaded" | "timed_out";
export type Refusal = HttpResponse & { readonly failure: Failure };
/** `now`: monotonic milliseconds, the same to all workers; `wall`: milliseconds since 1970. */
export interface Clock {
  now(): number;
  wall(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
/** Ten lines a second reach the log; the rest is counted. */
export type Log = Readonly<Record<"debug" | "info" | "warn" | "error", LogLine>>;
type Facts = Readonly<Record<string, string | number | boolean | null>>;
export type LogLine = (message: string, facts?: Facts) => void;
/**
 * Metrics `postern_plugin_<plugin>_<name>`. Values of labels are listed, so that their number is known:
 * `host.stats.counter("refused", { help: "...", labels: { by: ["route", "source"] } })`.
 */
export type Stats = Readonly<Record<"counter" | "gauge", MakeStat>>;
type MakeStat = <const L extends Labels = None>(name: string, about: About<L>) => Stat<L>;
type About<L> = Readonly<{ help: string; labels?: L }>;
type None = Record<never, never>;
export type Labels = Readonly<Record<string, readonly string[]>>;
type Chosen<L extends Labels> = { readonly [K in keyof L]: L[K][number] };
export interface Stat<L extends Labels = None> {
  add(count: number, ...labels: keyof L extends never ? [] : [Chosen<L>]): void;
}
