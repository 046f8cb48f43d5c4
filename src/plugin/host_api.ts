/** The part of the contract with what the proxy lends to a plugin: {@link Host}. @module */

import type {
  Body,
  ExchangeSummary,
  Failure,
  HttpResponse,
  RequestArgs,
  RequestChange,
  Values,
} from "./message_api.ts";

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
   * Reports a condition to operators, as an event and in the log. Call the result once, with the text of its
   * end. At most 100 conditions of a plugin at a time become events. `refused`: the number of requests that
   * the plugin refused meanwhile, which is added up over the workers.
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
  /** The text of its begin: `the circuit of db is open: 5 failures in a row`. */
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
