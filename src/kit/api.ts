/**
 * The test kit for plugins, types only. The code of the proxy creates, calls and closes the plugin. The test
 * moves the clock and scripts the endpoints.
 *
 *     await using it = await mount(shop, { config: { header: "x-shop" }, upstream: [status(404)] });
 *     const answer = await it.request({ path: "/a" });
 *
 * @module
 */

import type { Connection, Headers, Identity } from "../plugin/mod.ts";

/** Rejects what a proxy refuses: an export that is no plugin, an invalid configuration, a failed `create`. */
export declare function mount(plugin: unknown, options?: MountOptions): Promise<Mounted>;

export interface MountOptions {
  /** As in a configuration file; absent: `{}`. */
  readonly config?: unknown;
  /** Configuration on the only route; absent: none. */
  readonly routeConfig?: unknown;
  /** The caller: the name of a service, or an identity; `null`: no certificate. Absent: `web`. */
  readonly source?: string | Identity | null;
  /** A step for each attempt; the last is repeated. Absent: `ok()`. */
  readonly upstream?: readonly Step[];
  /**
   * Targets that the plugin may choose, by the name that it gives, with a step for each attempt: `v2` for
   * `{ subset: "v2" }`, `db/v2` for `{ service: "db", subset: "v2" }`. Absent: none.
   */
  readonly targets?: Readonly<Record<string, readonly Step[]>>;
  /** Services that the plugin may call, by name, with a step for each call. Absent: none. */
  readonly callees?: Readonly<Record<string, readonly Step[]>>;
  /** Files for `host.file` and `host.secret`, by absolute path. Absent: none. */
  readonly files?: Readonly<Record<string, string>>;
  /** Environment variables for `host.secret`. Absent: none. */
  readonly env?: Readonly<Record<string, string>>;
  readonly onFailure?: "refuse" | "skip";
  /** Replaces `host.random()`; absent: always 0.5. */
  readonly random?: () => number;
}

/** A plugin at work. */
export interface Mounted extends AsyncDisposable {
  readonly clock: FakeClock;
  /** The requests that endpoints received, one for each attempt. */
  readonly upstream: { readonly requests: readonly SeenRequest[] };
  /** Targets that the plugin may choose, with the requests that they received. */
  readonly targets: Readonly<Record<string, { readonly requests: readonly SeenRequest[] }>>;
  /** Services that the plugin may call, with the requests that they received. */
  readonly callees: Readonly<Record<string, { readonly requests: readonly SeenRequest[] }>>;
  /** Spans that the plugin made, once their exchange has ended. Every request of a test is traced. */
  readonly spans: readonly SeenSpan[];
  /** Log lines of the plugin, and of the proxy about it. */
  readonly logs: readonly LogLine[];
  /** Sends one request of the caller; resolves at the end of the exchange. */
  request(init?: RequestInit): Promise<Answer>;
  /** Opens a connection that the intentions allow. */
  connect(init?: Partial<Connection>): Promise<Connected>;
  /** Loads a new configuration; requests that are under way end on the old one. */
  reload(config: unknown): Promise<void>;
  /** Changes a file, or removes it (`null`). The plugin has it after two seconds of the clock. */
  write(path: string, text: string | null): void;
  /** The value of a metric of the plugin, by its own name; the sum over labels that are left out. */
  stat(name: string, labels?: Readonly<Record<string, string>>): number;
}

/** Defaults: `GET`, `/`, `db`, no headers and no body. */
export interface RequestInit {
  readonly method?: string;
  readonly path?: string;
  readonly authority?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** A list is sent chunk by chunk, without an announced length. */
  readonly body?: string | Uint8Array | readonly (string | Uint8Array)[];
  /** The caller leaves when it aborts. */
  readonly signal?: AbortSignal;
}

/** The response that the caller received. */
export interface Answer {
  /** 0: no response. */
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  readonly bytes: Uint8Array;
  /** Why there is no response from an endpoint or a plugin, or why it broke; `null`: it is complete. */
  readonly failure: { readonly code: string; readonly reason: string } | null;
}

export interface SeenSpan {
  readonly name: string;
  readonly durationMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
}

/** The result of a connection. */
export interface Connected {
  /** `null`: the connection was accepted. */
  readonly refusal: { readonly code: string; readonly reason: string } | null;
}

/** A request as an endpoint received it. */
export interface SeenRequest {
  /** `10.0.0.1:8080` for the first attempt, `10.0.0.2:8080` for the second. */
  readonly endpoint: string;
  readonly method: string;
  readonly authority: string;
  readonly path: string;
  /** The received part of the body, as text. */
  readonly body: string;
  /** The whole request arrived. */
  readonly isComplete: boolean;
  /** The proxy reset the request. */
  readonly isGivenUp: boolean;
  /** The first value of that name, in any case. */
  header(name: string): string | undefined;
  headers(name: string): readonly string[];
}

/** The result of one attempt: `ok()` and others, or a function that is called with the whole request. */
export type Step = Reply | Reset | Unreachable | Held | ((request: SeenRequest) => Reply);
export interface Reply {
  readonly kind: "reply";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: readonly (string | Uint8Array)[];
}
export interface Reset {
  readonly kind: "reset";
}
export interface Unreachable {
  readonly kind: "unreachable";
}
/** Attempts that wait for a response. */
export interface Held {
  readonly kind: "hold";
  wait(answer: (step: Exclude<Step, Held | Unreachable>) => void): void;
  /** Answers all attempts that wait now. */
  answer(step: Exclude<Step, Held | Unreachable>): void;
}

/** 200, with the body in the given chunks; the length is announced if there is one chunk. */
export declare function ok(...body: readonly (string | Uint8Array)[]): Reply;
export declare function status(
  code: number,
  headers?: Readonly<Record<string, string>>,
  ...body: readonly (string | Uint8Array)[]
): Reply;
/** The connection breaks after the request was sent. */
export declare function reset(): Reset;
/** The connection is refused, so the request is not sent. */
export declare function unreachable(): Unreachable;
/** No response until the test gives one. */
export declare function hold(): Held;

/** A clock that only the test moves. */
export interface FakeClock {
  /** Milliseconds since 1970; 2026-11-21T07:30:00Z at first. */
  now(): number;
  /** Advances time and runs due timers, in order and each at its own time. */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock forward or back, as an administrator does. */
  jump(ms: number): void;
}
/** Runs everything that waits only for promises, not for time. */
export declare function settle(): Promise<void>;

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}
