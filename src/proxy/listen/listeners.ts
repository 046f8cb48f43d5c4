/** All listeners of a data path. A snapshot touches only those that it changes. @module */

import { ProxyError, type Random } from "../../base/mod.ts";
import type {
  AcceptedConnection,
  Connection,
  InheritedSockets,
  ListeningSocket,
} from "../../net/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { type BoundListener, BoundListeners, isOpenAt, viewOf } from "../caller/bound_listeners.ts";
import { Caller } from "../caller/caller.ts";
import {
  EXPOSED_COLUMN,
  exposedPlaces,
  FairConnectionLimiter,
  reservedFor,
  type SharedCounts,
  SharedLimiter,
} from "../core/admission.ts";
import type { Context } from "../core/context.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { Ejection, EndpointView, ListenerView } from "../observe/view.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";
import { EDGE } from "./edge_listener.ts";
import { EXPOSED } from "./exposed_listener.ts";
import { INBOUND } from "./inbound_listener.ts";
import type {
  ConnectionShares,
  ListenerEnvironment,
  ListenerKind,
  ServedListener,
} from "./listener.ts";
import { OutboundListener, UPSTREAM } from "./outbound_listener.ts";

/** In the order in which they are opened and listed. */
const KINDS: readonly ListenerKind[] = [INBOUND, EXPOSED, EDGE, UPSTREAM];

/** Options, with the default connection limits of listeners. */
export interface ListenersOptions extends ConnectionLimits {
  readonly random: Random;
  /** Row of this worker in the shared counts. */
  readonly worker: number;
  readonly workers: number;
  readonly counts: SharedCounts;
  readonly maxConnections: number;
  /** Sockets that another process has handed over; nothing is accepted before {@link Listeners.accept}. */
  readonly inherited?: InheritedSockets | undefined;
  /** A connection came to an upstream that {@link Listeners.used} did not list. */
  readonly onFirstUse?: (upstreamId: string) => void;
}

/** First column of each upstream in the shared counts, the same for all workers. */
export type Columns = Readonly<Record<string, number>>;

interface Opened {
  readonly listener: ServedListener;
  /** `undefined`: it has no address in this worker. */
  readonly bound: BoundListener | undefined;
  readonly isSecure: boolean;
}

export class Listeners {
  readonly #context: Context;
  readonly #options: ListenersOptions;
  readonly #bound: BoundListeners;
  readonly #environment: ListenerEnvironment;
  /** By kind and name, in the order of {@link KINDS}. */
  readonly #opened = new Map<ListenerKind, Map<string, Opened>>(
    KINDS.map((kind) => [kind, new Map()]),
  );
  /** Not declared any more, with connections that are still open. */
  readonly #removed = new Map<string, ServedListener>();
  /** Declared, and cannot be opened. */
  readonly #refused = new Map<string, BoundListener>();
  #columns: Columns = {};

  constructor(context: Context, options: ListenersOptions) {
    this.#context = context;
    this.#options = options;
    this.#bound = new BoundListeners(context, {
      workers: options.workers,
      held: options.inherited?.held ?? false,
    });
    const { counts, worker, workers, random } = options;
    const limiter = (column: number, limit: number) =>
      new SharedLimiter(counts, { row: worker, column, limit });
    this.#environment = {
      context,
      limits: options,
      random,
      worker,
      exposedPlaces: new FairConnectionLimiter(limiter(EXPOSED_COLUMN, 0), workers),
      limiter,
      columnOf: (upstream) => this.#columns[upstream],
      routeTo: (upstream) => this.routeTo(upstream),
      upstreamsNamed: (name) => this.#upstreamsNamed(name),
    };
  }

  /** Hands parts to the listeners that are open. True: open connections must be judged again. */
  take(snapshot: Snapshot): boolean {
    let isOther = false;
    for (const listener of this.#listeners()) if (listener.take(snapshot)) isOther = true;
    return isOther;
  }

  /** Resolves when all are bound or have failed. Those that failed before are tried again. */
  async apply(snapshot: Snapshot, columns: Columns): Promise<void> {
    this.#columns = columns;
    this.#removeUndeclared(snapshot);
    const { maxConnections } = this.#options;
    const kept = reservedFor(Object.keys(snapshot.upstreams).length, maxConnections);
    const exposed = exposedPlaces(Object.keys(snapshot.exposed).length, maxConnections);
    const shares = { process: maxConnections, inbound: maxConnections - kept - exposed, exposed };
    await Promise.all(
      KINDS.flatMap((kind) =>
        kind.declared(snapshot).map((name) => this.#apply(kind, name, { snapshot, shares }))
      ),
    );
  }

  async #apply(kind: ListenerKind, name: string, { snapshot, shares }: {
    readonly snapshot: Snapshot;
    readonly shares: ConnectionShares;
  }): Promise<void> {
    const opened = this.#of(kind);
    const current = opened.get(name);
    const listener = current?.listener ?? this.#make(kind, name, snapshot);
    if (!listener) return await this.#refuse(kind, name, snapshot);
    listener.setShare(shares);
    const { bind, callers } = listener;
    const isSecure = listener.tls !== null;
    const isThere = bind ? isOpenAt(current?.bound, bind) : current?.bound === undefined;
    if (current?.isSecure === isSecure && isThere) return;
    const bound = bind ? this.#bound.replace(name, bind, current?.bound, callers) : undefined;
    if (!bound && current?.bound) this.#bound.close(current.bound);
    opened.set(name, { listener, bound, isSecure });
    if (bound) await this.#open(listener, bound, isSecure);
  }

  /** A removed upstream returns with its counts. `undefined`: it cannot be opened. */
  #make(kind: ListenerKind, name: string, snapshot: Snapshot): ServedListener | undefined {
    if (kind.whyNot?.(name, this.#environment) !== undefined) return undefined;
    this.#refused.delete(name);
    const removed = this.#removed.get(name);
    if (!removed || removed.kind !== kind.name) {
      return kind.make(name, snapshot, this.#environment);
    }
    this.#removed.delete(name);
    removed.take(snapshot);
    return removed;
  }

  async #refuse(kind: ListenerKind, name: string, { upstreams }: Snapshot): Promise<void> {
    const reason = kind.whyNot?.(name, this.#environment) ?? "";
    const bind = upstreams[name]?.bind;
    if (!bind) return;
    const bound = this.#bound.replace(name, bind, this.#refused.get(name), "own");
    this.#refused.set(name, bound);
    await this.#bound.open(bound, () => Promise.reject(new ProxyError("listen_failed", reason)));
  }

  #removeUndeclared(snapshot: Snapshot): void {
    for (const [kind, opened] of this.#opened) {
      const declared = new Set(kind.declared(snapshot));
      for (const [name, { bound, listener }] of opened) {
        if (declared.has(name)) continue;
        if (bound) this.#bound.close(bound);
        opened.delete(name);
        this.#removed.set(name, listener);
        listener.removed();
      }
    }
    for (const name of this.#refused.keys()) {
      if (snapshot.upstreams[name]) continue;
      this.#refused.delete(name);
      this.#bound.forget(name);
    }
    for (const [name, listener] of this.#removed) {
      if (listener.isUsed) continue;
      listener.forget();
      this.#bound.forget(name);
      this.#removed.delete(name);
    }
  }

  async #open(listener: ServedListener, bound: BoundListener, isSecure: boolean): Promise<void> {
    const { engine } = this.#context;
    const options = {
      address: bound.bind,
      reusePort: this.#options.workers > 1,
      descriptors: this.#options.inherited?.take(bound.key),
    };
    const outbound = listener instanceof OutboundListener ? listener : undefined;
    const accept = (socket: AcceptedConnection | Connection) => {
      if (!this.#bound.admits(bound)) return socket.reset();
      if (outbound?.isNoted === false) {
        outbound.isNoted = true;
        this.#options.onFirstUse?.(outbound.name);
      }
      this.#bound.strained(bound, new Caller(listener, socket).accept());
    };
    const listen = () =>
      isSecure ? engine.listenSecure(options, accept) : engine.listen(options, accept);
    await this.#bound.open(bound, listen);
  }

  routeTo(id: string): RequestRoute | undefined {
    const listener = this.#of(UPSTREAM).get(id)?.listener;
    return listener instanceof OutboundListener ? listener.route : undefined;
  }

  #upstreamsNamed(name: string): readonly OutboundListener[] {
    const opened = this.#of(UPSTREAM);
    const exact = opened.get(name)?.listener;
    if (exact instanceof OutboundListener) return [exact];
    return [...opened.values()].flatMap(({ listener }) =>
      listener instanceof OutboundListener && listener.part.name === name ? [listener] : []
    );
  }

  /** Upstreams with open connections, or with connections since this was read last. */
  used(): string[] {
    const used: string[] = [];
    for (const listener of this.#listeners()) {
      if (!(listener instanceof OutboundListener)) continue;
      const { isUsed, isNoted, name } = listener;
      if (isUsed || isNoted) used.push(name);
      listener.isNoted = isUsed;
    }
    return used;
  }

  /** By name; upstreams without an address are among them. */
  get byName(): ReadonlyMap<string, ServedListener> {
    return new Map([...this.#listeners()].map((listener) => [listener.name, listener]));
  }

  views(): ListenerView[] {
    const { facts: { draining }, clock } = this.#context;
    const now = { draining, nowMs: clock.monotonic() };
    return [
      ...[...this.#all()].flatMap(({ listener, bound }) =>
        bound ? [viewOf(bound, { ...now, listener })] : []
      ),
      ...[...this.#refused.values()].map((bound) => viewOf(bound, now)),
    ];
  }

  endpoints(nowMs: number): EndpointView[] {
    return [...this.#listeners()].flatMap(({ upstream }) =>
      [...upstream?.groups ?? []].flatMap(({ targets }) =>
        [...targets].flatMap(({ part, pool }) =>
          pool.views(nowMs).map((endpoint) => ({ target: part.key, ...endpoint }))
        )
      )
    );
  }

  /** Goes on with ejections of an earlier process. */
  resume(ejections: readonly Ejection[], nowMs: number): void {
    const byTarget = Map.groupBy(ejections, ({ target }) => target);
    for (const { upstream } of this.#listeners()) {
      for (const { targets } of upstream?.groups ?? []) {
        for (const { part, pool } of targets) {
          for (const { address, forMs } of byTarget.get(part.key) ?? []) {
            pool.resume(address, forMs, nowMs);
          }
        }
      }
    }
  }

  /** Called after each change: pooled connections must be those that a new request would get. */
  update(judge: boolean): void {
    for (const listener of this.#listeners()) listener.update(judge);
  }

  /** Ends the hold of a start with inherited sockets. Those that no listener wanted are closed. */
  accept(): void {
    this.#options.inherited?.close();
    this.#bound.accept();
  }

  /** Copies of the listening sockets, for another process. */
  sockets(): ListeningSocket[] {
    return [...this.#all()].flatMap(({ bound }) =>
      bound?.listener?.copies().map((fd) => ({ address: bound.key, fd })) ?? []
    );
  }

  /** Open connections live on. `handedOver`: another process goes on accepting. */
  stopAccepting(options?: { readonly handedOver: boolean }): void {
    for (const { bound } of this.#all()) if (bound) this.#bound.close(bound, options);
  }

  end(): void {
    for (const listener of this.#listeners()) listener.end();
    this.#bound.end();
  }

  #of(kind: ListenerKind): Map<string, Opened> {
    const opened = this.#opened.get(kind);
    if (!opened) throw new TypeError(`no such kind of listener: ${kind.name}`);
    return opened;
  }

  *#all(): Iterable<Opened> {
    for (const opened of this.#opened.values()) yield* opened.values();
  }

  *#listeners(): Iterable<ServedListener> {
    for (const { listener } of this.#all()) yield listener;
  }
}
