/**
 * The kit as tests of plugins see it: types only. A plugin is made, called and closed by the code that does
 * it in a proxy, on a clock that the test moves and before endpoints that answer as the test says.
 *
 *     await using it = await mount(shop, { config: { header: "x-shop" }, upstream: [status(404)] });
 *     const answer = await it.request({ path: "/a" });
 *
 * @module
 */

import type { Connection, Headers, Identity } from "../plugin/mod.ts";

/** Rejects as a proxy refuses it: what is no plugin, a configuration that is wrong, a failed `create`. */
export declare function mount(plugin: unknown, options?: MountOptions): Promise<Mounted>;

export interface MountOptions {
  /** As in a configuration file; absent: `{}`. */
  readonly config?: unknown;
  /** What is configured on the only route there is; absent: nothing. */
  readonly routeConfig?: unknown;
  /** Who calls: the name of a service, or all of an identity; `null`: who proves nothing. Absent: `web`. */
  readonly source?: string | Identity | null;
  /** A step for each try; the last answers all after it. Absent: `ok()`. */
  readonly upstream?: readonly Step[];
  /** Whom the plugin may ask, by what it calls them, with a step for each call. Absent: nobody. */
  readonly callees?: Readonly<Record<string, readonly Step[]>>;
  readonly onFailure?: "refuse" | "skip";
  /** What `host.random()` gives; absent: 0.5. */
  readonly random?: () => number;
}

/** A plugin at work. */
export interface Mounted extends AsyncDisposable {
  readonly clock: FakeClock;
  /** What endpoints were sent: one for each try. */
  readonly upstream: { readonly requests: readonly SeenRequest[] };
  /** Whom the plugin may ask, with the requests that they got. */
  readonly callees: Readonly<Record<string, { readonly requests: readonly SeenRequest[] }>>;
  /** Lines that the plugin wrote, or that were written about it. */
  readonly logs: readonly LogLine[];
  /** One request of the caller; comes once everything about it is over. */
  request(init?: RequestInit): Promise<Answer>;
  /** A connection of a caller that the intentions allow. */
  connect(init?: Partial<Connection>): Promise<Connected>;
  /** Loads it with this configuration; the requests that are under way end on what was before. */
  reload(config: unknown): Promise<void>;
  /** Of one of its own metrics, by the name that it gave it; the sum where labels are left out. */
  stat(name: string, labels?: Readonly<Record<string, string>>): number;
}

/** What is left out: `GET`, `/`, `db`, no headers and no body. */
export interface RequestInit {
  readonly method?: string;
  readonly path?: string;
  readonly authority?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** A list: chunk by chunk, with a length that is not announced. */
  readonly body?: string | Uint8Array | readonly (string | Uint8Array)[];
  /** Aborts: the caller leaves. */
  readonly signal?: AbortSignal;
}

/** What the caller was told. */
export interface Answer {
  /** 0: nothing. */
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  readonly bytes: Uint8Array;
  /** Why no endpoint and no plugin answered, or what broke the answer; `null`: nothing. */
  readonly failure: { readonly code: string; readonly reason: string } | null;
}

/** What a connection came to. */
export interface Connected {
  /** `null`: it was let in. */
  readonly refusal: { readonly code: string; readonly reason: string } | null;
}

/** A request as an endpoint got it. */
export interface SeenRequest {
  /** `10.0.0.1:8080` for the first try, `10.0.0.2:8080` for the second. */
  readonly endpoint: string;
  readonly method: string;
  readonly authority: string;
  readonly path: string;
  /** What came of its body, as text. */
  readonly body: string;
  /** All of it came. */
  readonly isComplete: boolean;
  /** It was given up from our side. */
  readonly isGivenUp: boolean;
  /** The first of that name, in any case. */
  header(name: string): string | undefined;
  headers(name: string): readonly string[];
}

/** What becomes of one try: `ok()` and its like, or a function that is asked once the request is there. */
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
/** Tries that wait for their answer. */
export interface Held {
  readonly kind: "hold";
  wait(answer: (step: Exclude<Step, Held | Unreachable>) => void): void;
  /** All that wait now. */
  answer(step: Exclude<Step, Held | Unreachable>): void;
}

/** 200, with a body in as many chunks as are given; of one chunk the length is announced. */
export declare function ok(...body: readonly (string | Uint8Array)[]): Reply;
export declare function status(
  code: number,
  headers?: Readonly<Record<string, string>>,
  ...body: readonly (string | Uint8Array)[]
): Reply;
/** The connection breaks once the request was sent. */
export declare function reset(): Reset;
/** No connection comes up: the request is sent to nobody. */
export declare function unreachable(): Unreachable;
/** No answer until the test gives one. */
export declare function hold(): Held;

/** Stands still until the test moves it. */
export interface FakeClock {
  /** Milliseconds since 1970; 2026-11-21T07:30:00Z at first. */
  now(): number;
  /** Moves time on and runs what falls due, in order and each at its own time. */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock forward or back, as an administrator does. */
  jump(ms: number): void;
}
/** Lets everything run that waits only for promises, not for time. */
export declare function settle(): Promise<void>;

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}
