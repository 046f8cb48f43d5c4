/**
 * The contract between the proxy and a plugin. It has types only, and imports nothing.
 *
 * A plugin is a module whose default export is a {@link PluginDefinition}; importing it has no effect.
 * Plugins are layers around a request, ordered by their {@link Phase}: the request passes them on its way in,
 * the response on its way out. Values are immutable: a hook passes a changed copy to `next`, or returns it.
 *
 * @module
 */

/**
 * The position of a layer, outermost first; within a phase the order is that of the configuration. `guard`:
 * before the route is known. `route`: picks the route, and is the first on it. `filter`: on the route. `retry`: may call `next` again.
 * `attempt`: around each attempt. A listener has at most one plugin of `route`, and one of `retry`.
 */
export type Phase = "guard" | "route" | "filter" | "retry" | "attempt";

/** Standard Schema 1 (standardschema.dev), which valibot, zod and arktype implement. */
export interface Schema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly output: Output } | undefined;
  };
}
export type OutputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["output"];

/** `export default { ... } satisfies PluginDefinition<typeof Config>`. */
export interface PluginDefinition<C extends Schema = Schema, R extends Schema = Schema> {
  /** In `snake_case`: the key in configuration, a part of its metric names, a field of its log lines. */
  readonly name: string;
  readonly api: 1;
  readonly phase: Phase;
  /** Configuration for a listener. Make it strict, so that a misspelled key is an error. */
  readonly config: C;
  /** Configuration for one route; absent: a route has none. On such a route a guard's hook is called again. */
  readonly routeConfig?: R;
  /** Called for each generation of configuration before it serves; takes at most 5 s. */
  create(host: Host, config: OutputOf<C>): Plugin<OutputOf<R>> | Promise<Plugin<OutputOf<R>>>;
}

/** A plugin at work. An absent hook costs nothing. */
export interface Plugin<R = unknown> {
  /** Called after a caller is authorized and before any byte is carried. Return a refusal, or nothing. */
  onConnection?(connection: Connection): Refusal | void | Promise<Refusal | void>;
  /**
   * Called around everything further in. `return next()` continues, `return next({ request, response })`
   * continues with changes, `return host.reply(...)` answers. Without `async` no promise is made.
   */
  onRequest?(args: RequestArgs<R>, next: Next): Answer;
  /** Phase `route` only. Called when routes changed; returns the function that picks a request's route. */
  onRoutes?(routes: readonly Route[]): FindRoute | Promise<FindRoute>;
  /** Called once, after the last exchange of the generation. */
  close?(): void | Promise<void>;
}

/** A response, or a promise of one. The result of `next` may be returned as it is, or awaited. */
export type Answer = HttpResponse | PromiseLike<HttpResponse>;
export type FindRoute = (request: HttpRequest) => Route | undefined;
/**
 * Continues inwards. Only phase `retry` may call it again, which abandons the response before. The answer
 * always comes: when the caller leaves first, it is the failure `downstream_reset`, and a further call throws.
 */
export type Next = (change?: Change) => Answer;
export interface Change {
  /** Continues with this request in place of the given one. */
  readonly request?: HttpRequest;
  /** Changes the response: like awaiting `next`, without a promise. */
  readonly response?: (response: HttpResponse) => Answer;
  /** Phase `retry`: endpoints that are not picked while there are others. */
  readonly avoid?: readonly Endpoint[];
  /**
   * Phases `route`, `filter` and `retry` at an upstream: continues to this target in place of the one that the
   * chain picks. The innermost layer that names one decides. A target that is not there is the failure
   * `target_not_found`.
   */
  readonly target?: Target;
  /** The failure is `response_timed_out` if no response began so long after the request was complete. */
  readonly timeoutMs?: number;
  /** Replaces the listener's limit for an exchange in which no byte moves. 0: no limit. */
  readonly idleTimeoutMs?: number;
}
/**
 * A target of an upstream, by as many of its names as tell it from the others. A subset or service that a
 * split leads to keeps its failover and balancing; a failover target is taken alone.
 */
export interface Target {
  /** Another HTTP upstream of this proxy, past its plugins, by name or id. Alone: as its last route leads. */
  readonly upstream?: string;
  readonly service?: string;
  /** `""`: the service without a subset. */
  readonly subset?: string;
  readonly datacenter?: string;
  /** Consul's id of the target, as `explain` shows it: `v2.db.default.default.dc1`. */
  readonly id?: string;
}
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

/** The interface of the proxy for a plugin while a generation serves. */
export interface Host {
  readonly log: Log;
  readonly stats: Stats;
  readonly clock: Clock;
  readonly listener: string;
  /** The threads that serve the listener, each with plugins of its own; `index` is this one, from 0. */
  readonly worker: { readonly index: number; readonly count: number };
  random(): number;
  /** Aborts when the generation ends. */
  readonly signal: AbortSignal;
  /** Compiles RE2 syntax, which runs in linear time. The expression must match the whole text. */
  regex(pattern: string): Promise<(text: string) => boolean>;
  reply(status: number, headers?: Values, body?: string): HttpResponse;
  /** The proxy's own refusal, with a gRPC status for gRPC; only `unauthenticated` sends the reason. */
  refuse(as: RefusedAs, reason: string): Refusal;
  /** Makes a writer of access log lines: text or JSON with `%` operators; `""`: the default format. */
  accessLog(format: string | object): (ended: ExchangeSummary) => void;
  /** The compressed bytes; flushes whenever the rest of the body is not there yet. */
  compress(body: Body, coding: "gzip" | "br" | "zstd"): ReadableStream<Uint8Array>;
  /**
   * The bytes before compression. A result of more than `limitBytes`, or another coding, breaks the stream:
   * a hook that does not catch this refuses the message, and does not count as failed. With `br` and `zstd` an
   * early end is not noticed.
   */
  decompress(
    body: Body,
    coding: "gzip" | "deflate" | "br" | "zstd",
    limitBytes: number,
  ): ReadableStream<Uint8Array>;
  /** Makes a header value with the `%` operators of an access log; `""`: the operators have no value. */
  headerValue(text: string): (args: RequestArgs, response?: HttpResponse) => string;
  /** Makes a map with at most `limit` entries, each for `ttlMs`; the one used longest ago leaves first. */
  map<V>(options: { readonly limit: number; readonly ttlMs: number }): BoundedMap<V>;
  /** State that survives a reload: made once for each key of this plugin, dropped with its last user. */
  shared<T extends object>(key: string, make: () => T): T;
  /**
   * Memory that all workers share, for `Atomics`, with zeros at first. The length of a key is fixed.
   * `survivesUpgrade`: the next process of an upgrade begins with a copy, which is brought up to date just
   * before it accepts connections. Change the key when the meaning of the cells changes.
   */
  sharedCells(
    key: string,
    length: number,
    options?: { readonly survivesUpgrade?: boolean },
  ): Promise<Int32Array<SharedArrayBuffer>>;
  /**
   * Only in `create`: a file that is read again when it changes. Rejects if it cannot be used now; later the
   * last good value stays, and a log line names the failure.
   */
  file<T = string>(path: string, options?: FileOptions<T>): Promise<WatchedFile<T>>;
  /** Only in `create`: a secret that is removed from log lines, failures and refusals of plugins. */
  secret(from: SecretFrom): Promise<Secret>;
  /**
   * Only in `create`: a service to call, by the name of an upstream (past its plugins), `127.0.0.1:9191` or
   * `unix:///x`. Throws for any other target.
   */
  callee(target: string, options?: { readonly http2?: boolean }): Call;
  /**
   * Reports a condition to operators, as an event and in the log. Call the result once, with what ended it.
   * Of a plugin's conditions at most 100 at a time become events. `refused`: the number of what it refused
   * meanwhile, which is added up over the workers.
   */
  condition(about: Condition): (ended: string, refused?: number) => void;
  /** Runs a task in the background. It restarts with growing pauses if it throws, and ends with `signal`. */
  spawn(name: string, task: (signal: AbortSignal) => Promise<void>): void;
}
export interface FileOptions<T> {
  /** Makes the value from the text; throws if it cannot be used. Absent: the text. */
  readonly parse?: (text: string) => T;
  /** Absent: 1 MiB; at most 16 MiB. */
  readonly limitBytes?: number;
}
export interface WatchedFile<T> {
  /** The last good value. */
  readonly value: T;
  /** Called with each later value. */
  onChange(callback: (value: T) => void): void;
}
/** A file, by its absolute path, which is followed; or an environment variable of the proxy. */
export type SecretFrom = { readonly file: string } | { readonly env: string };
/** Shown as `(hidden)` wherever it is printed. */
export interface Secret {
  /** The value now, without a line end. Read it for each use: the file may have changed. */
  read(): string;
}
export type Condition = {
  /** Names the condition, the same in all workers: `circuit of db`. */
  readonly key: string;
  /** What began: `the circuit of db is open: 5 failures in a row`. */
  readonly text: string;
  readonly effect?: string;
};
/** An entry whose time is over is not found; it counts in `size` until it is looked up or leaves. */
export interface BoundedMap<V> {
  get(key: string): V | undefined;
  /** `ttlMs`: for this entry. */
  set(key: string, value: V, ttlMs?: number): void;
  delete(key: string): void;
  clear(): void;
  readonly size: number;
}
export interface Call {
  /** Sends `GET /` unless changed. Resolves to a whole response, or a `failure`; gRPC trailers are headers. */
  (request: RequestChange, terms: Terms): Promise<HttpResponse>;
  /**
   * The same with bodies as streams: the request's may be one, the response comes with its head, and is over
   * with its body, which the plugin reads or passes on. Trailers are dropped.
   */
  stream(request: RequestChange, terms: Omit<Terms, "limitBytes">): Promise<HttpResponse>;
  health(): CalleeHealth;
}
/** The state of a callee, as this worker knows it. */
export interface CalleeHealth {
  /** Endpoints, and those that are neither ejected nor fail their checks. */
  readonly known: number;
  readonly usable: number;
  /** Why the last call of this plugin that ended failed; `null`: it did not. */
  readonly lastFailure: Failure | null;
}
export type Terms = {
  /** Until the response; of a streamed call until its head, and then between any two bytes of its body. */
  readonly timeoutMs: number;
  /** Limit of the response's body; a longer one is a failure. Absent: the body is discarded. */
  readonly limitBytes?: number;
  readonly signal?: AbortSignal;
};
export type RefusedAs = "denied" | "unauthenticated" | "rate_limited" | "overloaded" | "timed_out";
export type Refusal = HttpResponse & { readonly failure: Failure };
export interface Clock {
  /** Monotonic milliseconds, the same for all workers and for the next process of an upgrade. */
  now(): number;
  /** Milliseconds since 1970. */
  wall(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
/** At most ten lines a second are written; the rest are counted. */
export type Log = {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
};
type Facts = { readonly [name: string]: string | number | boolean | null };
export type LogLine = (message: string, facts?: Facts) => void;
/**
 * Metrics `postern_plugin_<plugin>_<name>`. The values of each label are listed, which bounds their number:
 * `host.stats.counter("refused", { help: "...", labels: { by: ["route", "source"] } })`.
 */
export type Stats = {
  readonly counter: <const L extends Labels = None>(name: string, about: About<L>) => Stat<L>;
  /** Shown as the sum over all workers. */
  readonly gauge: <const L extends Labels = None>(name: string, about: About<L>) => Gauge<L>;
  /** Durations; shown in seconds, as `<name>_seconds`. */
  readonly histogram: <const L extends Labels = None>(name: string, about: About<L>) => Times<L>;
};
type About<L> = { readonly help: string; readonly labels?: L };
type None = Record<never, never>;
export type Labels = { readonly [label: string]: readonly string[] };
type Chosen<L extends Labels> = { readonly [K in keyof L]: L[K][number] };
type With<L extends Labels> = keyof L extends never ? [] : [Chosen<L>];
export interface Stat<L extends Labels = None> {
  add(count: number, ...labels: With<L>): void;
}
export interface Gauge<L extends Labels = None> extends Stat<L> {
  set(value: number, ...labels: With<L>): void;
}
export interface Times<L extends Labels = None> {
  observe(ms: number, ...labels: With<L>): void;
}
