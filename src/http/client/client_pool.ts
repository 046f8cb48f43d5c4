/** HTTP connections to one server, kept between requests; `dial` is its owner's. @module */

import type { Clock } from "../../base/mod.ts";
import type { Dial } from "../../net/mod.ts";
import type { HttpEnd } from "../exchange.ts";
import {
  type ClientCodecOptions,
  type ClientVersion,
  type ConnectionOwner,
  KeptConnection,
  type Reached,
} from "./kept_connection.ts";

/** Exactly one callback is called, unless the dial was cancelled before. */
export interface ReachHandler<T, F> {
  onDialled(reached: T): void;
  onFailed(failure: F): void;
}

/** Faults of the pool itself, which leave a request without a connection. */
export type PoolFault<R extends Reached> =
  /** The pool is closed to new requests. */
  | { readonly kind: "closed" }
  | { readonly kind: "too_many_wait"; readonly limit: number }
  /** `connection`: one of those without room. */
  | {
    readonly kind: "waited_long";
    readonly waitedMs: number;
    readonly connection: KeptConnection<R> | undefined;
  }
  | { readonly kind: "connect_timed_out"; readonly afterMs: number }
  /** The connection ended before the server's SETTINGS. */
  | { readonly kind: "ended_early"; readonly end: HttpEnd }
  /** The server's first SETTINGS, or a GOAWAY with them, allow no request. */
  | { readonly kind: "takes_no_requests" };

/** A limit on connections that several pools share. */
interface PoolLimiter {
  /** False: the limit is reached. */
  enter(): boolean;
  leave(): void;
}

/** For counters, and for owners that react to a lost connection. */
export interface PoolEvents<R extends Reached, F> {
  onOpened?(): void;
  onDialFailed?(failure: F): void;
  onWaiting?(change: 1 | -1): void;
  /** The connection takes no new requests: its server is leaving, or lowered the limit. */
  onDraining?(connection: KeptConnection<R>): void;
  /** A connection that was open is over. */
  onClosed?(connection: KeptConnection<R>, end: HttpEnd): void;
  /** Requests are open, and no connection has received anything for a while: the server may hang. */
  onSilent?(): void;
}

export interface ClientPoolOptions<R extends Reached, F> extends ClientCodecOptions {
  dial(handler: ReachHandler<R, F>): Dial;
  /** Converts a fault of the pool into the owner's type. */
  failureOf(fault: PoolFault<R>): F;
  readonly events?: PoolEvents<R, F>;
  /** Timers for waits and idle checks. */
  readonly timers: Pick<Clock, "after">;
  /** HTTP/2: a connection opens with the server's SETTINGS, and not when it has been dialled. */
  readonly awaitsSettings?: boolean;
  /** Time limit until a connection is open; absent: `dial` has a deadline of its own. */
  readonly connectMs?: number;
  /** Limit of connections that take requests; absent: as many as the requests need. */
  readonly limit?: number;
  readonly limiter?: PoolLimiter | undefined;
  /** Time limit for a request that waits for a connection; absent: until it is cancelled. */
  readonly waitMs?: number;
  /** Limit of waiting requests; absent: the owner limits them. */
  readonly waitingLimit?: number;
}

/** Assumed capacity of an HTTP/2 connection before the server's SETTINGS came. */
const EXPECTED_STREAMS = 100;
/** A connection that was idle for this long is closed. */
const IDLE_MS = 3_600_000;
const IDLE_CHECK_MS = 300_000;
/** Interval of the checks for silence, and the number of silent checks that are reported. */
const LOOK_MS = 1_000;
const SILENT_LOOKS = 2;

interface Waiting<R extends Reached, F> {
  readonly handler: ReachHandler<KeptConnection<R>, F>;
  readonly deadline: { cancel(): void } | undefined;
}

interface Opening<R extends Reached> {
  dial?: Dial;
  connection?: KeptConnection<R>;
  deadline?: { cancel(): void };
  /** Releases its place in the shared limit. */
  readonly leave: () => void;
}

export class ClientPool<R extends Reached, F> implements ConnectionOwner<R> {
  readonly #options: ClientPoolOptions<R, F>;
  /** Open connections, each with the function that releases its place in the shared limit. */
  readonly #all = new Map<KeptConnection<R>, () => void>();
  readonly #openings = new Set<Opening<R>>();
  /** Open connections that take no new requests. */
  readonly #draining = new Set<KeptConnection<R>>();
  /** Connections with room; the last used one is taken first, so that the others become idle. */
  readonly #ready: KeptConnection<R>[] = [];
  readonly #waiting = new Set<Waiting<R, F>>();
  #idleCheck: { cancel(): void } | undefined;
  #over = false;
  #isWatched = false;

  constructor(options: ClientPoolOptions<R, F>) {
    this.#options = options;
  }

  get version(): ClientVersion {
    return this.#options.version;
  }

  /** Open connections, including those that drain. */
  get connections(): readonly KeptConnection<R>[] {
    return [...this.#all.keys()];
  }

  /** A connection that can carry a request at once. */
  ready(): KeptConnection<R> | undefined {
    for (let last = this.#ready.at(-1); last; last = this.#ready.at(-1)) {
      const isFit = !last.isStale;
      if (isFit && last.client.capacity > 0) return last;
      last.isListed = false;
      this.#ready.pop();
      if (!isFit) last.client.drain();
    }
    return undefined;
  }

  /** Calls `handler` with a connection that has room, now or later; it must be used at once. */
  reach(handler: ReachHandler<KeptConnection<R>, F>): Dial {
    const connection = this.ready();
    if (connection) {
      handler.onDialled(connection);
      return NO_DIAL;
    }
    const { failureOf, timers, waitMs, waitingLimit = Infinity, events } = this.#options;
    if (this.#over || this.#waiting.size >= waitingLimit) {
      const fault = { kind: "too_many_wait", limit: waitingLimit } as const;
      handler.onFailed(failureOf(this.#over ? { kind: "closed" } : fault));
      return NO_DIAL;
    }
    const deadline = waitMs === undefined
      ? undefined
      : timers.after(waitMs, () => this.#waitedLong(waiting, waitMs));
    const waiting: Waiting<R, F> = { handler, deadline };
    this.#waiting.add(waiting);
    events?.onWaiting?.(1);
    this.#dialMore();
    return { cancel: () => this.#waitsNoMore(waiting) };
  }

  /** Closes connections without requests, and cancels dials that no request waits for. */
  closeIdle(): void {
    if (this.#waiting.size === 0) this.#cancelOpenings();
    for (const { client } of this.connections) if (client.active === 0) client.drain();
  }

  /** New requests get new connections; current ones end with their last request. */
  renew(): void {
    if (this.#waiting.size === 0) this.#cancelOpenings();
    for (const { client } of this.connections) client.drain();
  }

  /** Takes no new requests: open requests continue, waiting ones fail. */
  drain(): void {
    this.#over = true;
    this.#cancelOpenings();
    this.#failed(this.#options.failureOf({ kind: "closed" }));
    for (const { client } of this.connections) client.drain();
  }

  /** Breaks all connections, and with them their requests. */
  reset(detail: string): void {
    for (const { client } of this.connections) client.reset(detail);
  }

  // Callbacks of the connections.

  began(): void {
    if (this.#isWatched || !this.#options.events?.onSilent) return;
    this.#isWatched = true;
    this.#options.timers.after(LOOK_MS, () => this.#look());
  }

  changed(connection: KeptConnection<R>): void {
    const { client } = connection;
    const opening = this.#openingOf(connection);
    if (opening) return this.#opened(opening, connection);
    if (client.capacity === 0) this.#drains(connection);
    else this.#hasRoom(connection);
  }

  closed(connection: KeptConnection<R>, end: HttpEnd): void {
    const opening = this.#openingOf(connection);
    if (opening) {
      return this.#openingFailed(opening, this.#options.failureOf({ kind: "ended_early", end }));
    }
    const leave = this.#all.get(connection);
    if (!leave) return;
    this.#all.delete(connection);
    this.#draining.delete(connection);
    const at = connection.isListed ? this.#ready.indexOf(connection) : -1;
    if (at >= 0) this.#ready.splice(at, 1);
    leave();
    if (this.#all.size === 0) {
      this.#idleCheck?.cancel();
      this.#idleCheck = undefined;
    }
    this.#options.events?.onClosed?.(connection, end);
    this.#dialMore();
  }

  #hasRoom(connection: KeptConnection<R>): void {
    if (this.#draining.size > 0) this.#draining.delete(connection);
    if (!connection.isListed) {
      connection.isListed = true;
      this.#ready.push(connection);
    }
    for (const waiting of this.#waiting) {
      const ready = this.ready();
      if (!ready) break;
      this.#waitsNoMore(waiting);
      waiting.handler.onDialled(ready);
    }
  }

  /** The connection has no room, and not because of its own requests. */
  #drains(connection: KeptConnection<R>): void {
    if (!this.#draining.has(connection)) {
      this.#draining.add(connection);
      this.#options.events?.onDraining?.(connection);
    }
    // A server that takes no requests would otherwise get ever more connections.
    if (connection.client.active === 0) connection.client.drain();
    this.#dialMore();
  }

  // Waiting.

  /** False: it was not waiting any more. */
  #waitsNoMore(waiting: Waiting<R, F>): boolean {
    if (!this.#waiting.delete(waiting)) return false;
    waiting.deadline?.cancel();
    this.#options.events?.onWaiting?.(-1);
    return true;
  }

  #waitedLong(waiting: Waiting<R, F>, waitedMs: number): void {
    if (!this.#waitsNoMore(waiting)) return;
    const [connection] = this.connections;
    const { failureOf } = this.#options;
    waiting.handler.onFailed(failureOf({ kind: "waited_long", waitedMs, connection }));
  }

  /** Fails the waiting requests that this dial was made for; the others wait for the other dials. */
  #failed(failure: F): void {
    const share = Math.ceil(this.#waiting.size / (this.#openings.size + 1));
    for (const waiting of [...this.#waiting].slice(0, share)) {
      if (this.#waitsNoMore(waiting)) waiting.handler.onFailed(failure);
    }
  }

  // Dialling.

  #dialMore(): void {
    if (this.#over) return;
    const perDial = this.#options.version === "h2" ? EXPECTED_STREAMS : 1;
    while (this.#openings.size * perDial < this.#waiting.size && this.#dialOne());
  }

  /** False: a limit does not allow another connection. */
  #dialOne(): boolean {
    const { limit = Infinity, limiter, timers, connectMs, failureOf } = this.#options;
    if (this.#all.size - this.#draining.size + this.#openings.size >= limit) return false;
    // As in Envoy, a needed server gets its first connection beyond the shared limit.
    const isFirst = this.#all.size === 0 && this.#openings.size === 0;
    const isCounted = limiter?.enter() ?? false;
    if (limiter && !isCounted && !isFirst) return false;
    const opening: Opening<R> = {
      leave: () => {
        if (isCounted) limiter?.leave();
      },
    };
    this.#openings.add(opening);
    if (connectMs !== undefined) {
      const timedOut = () =>
        this.#openingFailed(opening, failureOf({ kind: "connect_timed_out", afterMs: connectMs }));
      opening.deadline = timers.after(connectMs, timedOut);
    }
    opening.dial = this.#options.dial({
      onDialled: (reached) => this.#dialled(opening, reached),
      onFailed: (failure) => this.#openingFailed(opening, failure),
    });
    return true;
  }

  #dialled(opening: Opening<R>, reached: R): void {
    if (!this.#openings.has(opening)) return reached.stream.reset();
    const connection = new KeptConnection(this, reached, this.#options);
    opening.connection = connection;
    if (!this.#options.awaitsSettings) this.#opened(opening, connection);
  }

  #opened(opening: Opening<R>, connection: KeptConnection<R>): void {
    const { awaitsSettings, events, failureOf } = this.#options;
    if (awaitsSettings && connection.client.capacity === 0) {
      return this.#openingFailed(opening, failureOf({ kind: "takes_no_requests" }));
    }
    this.#openings.delete(opening);
    opening.deadline?.cancel();
    this.#all.set(connection, opening.leave);
    this.#idleCheck ??= this.#checkIdleLater();
    events?.onOpened?.();
    this.changed(connection);
  }

  #openingFailed(opening: Opening<R>, failure: F): void {
    if (!this.#openings.has(opening)) return;
    this.#cancel(opening);
    this.#options.events?.onDialFailed?.(failure);
    this.#failed(failure);
  }

  #cancelOpenings(): void {
    for (const opening of this.#openings) this.#cancel(opening);
  }

  #cancel(opening: Opening<R>): void {
    this.#openings.delete(opening);
    opening.deadline?.cancel();
    opening.dial?.cancel();
    opening.connection?.client.reset("given up");
    opening.leave();
  }

  #openingOf(connection: KeptConnection<R>): Opening<R> | undefined {
    // Only a connection that awaits SETTINGS reports events before it is open.
    if (!this.#options.awaitsSettings) return undefined;
    for (const opening of this.#openings) if (opening.connection === connection) return opening;
    return undefined;
  }

  // Idle and silent connections.

  #checkIdleLater(): { cancel(): void } {
    return this.#options.timers.after(IDLE_CHECK_MS, () => {
      this.#idleCheck = this.#checkIdleLater();
      for (const { client, idleMs } of this.connections) if (idleMs >= IDLE_MS) client.drain();
    });
  }

  #look(): void {
    this.#isWatched = false;
    let isHeard = false;
    let isSilent = false;
    let isOpen = false;
    for (const connection of this.#all.keys()) {
      const active = connection.client.active > 0;
      isOpen ||= active;
      isHeard ||= connection.heard;
      connection.silentLooks = active && !connection.heard ? connection.silentLooks + 1 : 0;
      connection.heard = false;
      isSilent ||= connection.silentLooks >= SILENT_LOOKS;
    }
    // A server that answers on another connection does not hang.
    if (isSilent && !isHeard) this.#options.events?.onSilent?.();
    if (isOpen && !this.#over) this.began();
  }
}

const NO_DIAL: Dial = { cancel: () => {} };
