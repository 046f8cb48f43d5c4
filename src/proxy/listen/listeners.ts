/**
 * All listeners of a data path, brought in line with each snapshot. A change touches only what it is about;
 * connections of everything else do not notice.
 *
 * @module
 */

import { type BindAddress, ProxyError, type Random } from "../../base/mod.ts";
import type { AcceptedConnection, Connection } from "../../net/mod.ts";
import type {
  EdgePart,
  ExposedPart,
  InboundPart,
  Snapshot,
  UpstreamPart,
} from "../../snapshot/mod.ts";
import {
  EXPOSED_COLUMN,
  exposedPlaces,
  INBOUND_COLUMN,
  MAX_UPSTREAMS,
  reservedFor,
  type SharedCounts,
  SharedLimiter,
} from "../core/admission.ts";
import { ListenerStats } from "../observe/connection_record.ts";
import type { Context } from "../core/context.ts";
import { type BoundListener, BoundListeners, isOpenAt, viewOf } from "../caller/bound_listeners.ts";
import { Downstream, type ListenerFacts } from "../caller/downstream.ts";
import { EdgeListener } from "./edge_listener.ts";
import { ExposedListener } from "./exposed_listener.ts";
import { FairConnectionLimiter } from "../core/fair_limiters.ts";
import { InboundListener } from "./inbound_listener.ts";
import type { ConnectionLimits } from "../core/live_connections.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";
import { OutboundListener } from "./outbound_listener.ts";
import { Upstream } from "../upstream/upstream.ts";
import type { EndpointView, ListenerView } from "../observe/view.ts";

/** With limits of the inbound listeners' connections; upstreams carry their own. */
export interface ListenersOptions extends ConnectionLimits {
  readonly random: Random;
  /** Which row of the shared counts is ours. */
  readonly worker: number;
  readonly workers: number;
  readonly counts: SharedCounts;
  readonly maxConnections: number;
  /** A connection has come to an upstream that was not in use when {@link Listeners.used} was read last. */
  readonly onFirstUse?: (upstreamId: string) => void;
}

interface Open<F extends ListenerFacts> {
  readonly front: F;
  readonly door: BoundListener;
  /** Its callers must speak TLS. */
  readonly isSecure: boolean;
}

export type AnyListener = InboundListener | ExposedListener | EdgeListener | OutboundListener;

/** First column of each upstream in the shared counts, the same for all workers. */
export type Columns = Readonly<Record<string, number>>;

export class Listeners {
  readonly #context: Context;
  readonly #options: ListenersOptions;
  readonly #doors: BoundListeners;
  /** Of all exposed paths together. */
  readonly #exposedPlaces: FairConnectionLimiter;
  readonly #inbounds = new Map<string, Open<InboundListener>>();
  readonly #exposed = new Map<string, Open<ExposedListener>>();
  readonly #upstreams = new Map<string, Open<OutboundListener>>();
  /** Those without a listener of their own, which edges lead to. */
  readonly #unbound = new Map<string, OutboundListener>();
  readonly #edges = new Map<string, Open<EdgeListener>>();
  /** Those with connections that are still open. */
  readonly #removed = new Map<string, OutboundListener>();
  /** Declared, and there is no column to count them in. */
  readonly #uncounted = new Map<string, BoundListener>();

  constructor(context: Context, options: ListenersOptions) {
    this.#context = context;
    this.#options = options;
    this.#doors = new BoundListeners(context, options.workers);
    this.#exposedPlaces = new FairConnectionLimiter(
      this.#limiter(EXPOSED_COLUMN, 0),
      options.workers,
    );
  }

  /** Hands parts to what is open already. True: some go by other credentials or paths than before. */
  take(snapshot: Snapshot): boolean {
    const { inbound, exposed, edges, upstreams } = snapshot;
    let others = false;
    for (const [name, { front }] of this.#inbounds) {
      const part = inbound[name];
      if (!part) continue;
      others ||= part.credentials !== front.part.credentials;
      front.part = part;
    }
    for (const [name, { front }] of this.#exposed) {
      const isOther = front.take(exposed[name]);
      others ||= isOther;
    }
    for (const [id, { front }] of this.#edges) {
      const part = edges[id];
      const isOther = part !== undefined && front.take(part);
      others ||= isOther;
    }
    for (const { upstream } of this.#outbounds()) {
      const part = upstreams[upstream.part.id];
      if (!part) continue;
      const { credentials, listener } = upstream.part;
      others ||= part.credentials !== credentials ||
        part.listener?.credentials !== listener?.credentials;
      upstream.update(part, snapshot);
    }
    return others;
  }

  /** Resolves when all are bound or have failed. Those that failed before are tried again. */
  async apply(snapshot: Snapshot, columns: Columns): Promise<void> {
    this.#removeGone(this.#inbounds, snapshot.inbound);
    this.#removeGone(this.#exposed, snapshot.exposed);
    this.#removeGone(this.#edges, snapshot.edges);
    this.#removeUpstreams(snapshot.upstreams);
    const { maxConnections } = this.#options;
    const kept = reservedFor(Object.keys(snapshot.upstreams).length, maxConnections);
    const exposed = exposedPlaces(Object.keys(snapshot.exposed).length, maxConnections);
    await Promise.all([
      ...Object.entries(snapshot.inbound).map(([name, part]) =>
        this.#applyInbound(name, part, maxConnections - kept - exposed)
      ),
      ...Object.entries(snapshot.exposed).map(([name, part]) =>
        this.#applyExposed(name, part, exposed)
      ),
      ...Object.values(snapshot.edges).map((part) => this.#applyEdge(part)),
      ...Object.values(snapshot.upstreams).map((part) =>
        this.#applyUpstream(part, snapshot, columns[part.id])
      ),
    ]);
  }

  /**
   * `most`: places of all inbound listeners together. They count in one column, so a limit of one's own
   * bounds the sum: it is never exceeded, and where several have one each needs a column of its own
   * besides, as upstreams have.
   */
  async #applyInbound(name: string, part: InboundPart, most: number): Promise<void> {
    const current = this.#inbounds.get(name);
    const limit = Math.min(part.maxConnections || Infinity, most);
    const front = current?.front ?? new InboundListener(this.#context, part, {
      name,
      places: this.#limiter(INBOUND_COLUMN, limit),
      limits: this.#options,
    });
    front.places.limit = limit;
    if (isOpenAt(current?.door, part.bind)) return;
    const door = this.#doors.replace(name, part.bind, current?.door, "strangers");
    const opening = { front, door, isSecure: true };
    this.#inbounds.set(name, opening);
    await this.#open(opening);
  }

  /** `most`: places of all of them together. */
  async #applyExposed(name: string, part: ExposedPart, most: number): Promise<void> {
    const current = this.#exposed.get(name);
    const front = current?.front ?? new ExposedListener(this.#context, part, {
      name,
      places: this.#exposedPlaces,
      limits: this.#options,
    });
    this.#exposedPlaces.all.limit = most;
    if (isOpenAt(current?.door, part.bind)) return;
    const door = this.#doors.replace(name, part.bind, current?.door, "strangers");
    const opening = { front, door, isSecure: false };
    this.#exposed.set(name, opening);
    await this.#open(opening);
  }

  async #applyEdge(part: EdgePart): Promise<void> {
    const { id, bind } = part;
    const current = this.#edges.get(id);
    const isSecure = part.listener !== null;
    if (current?.isSecure === isSecure && isOpenAt(current.door, bind)) return;
    const front = current?.front ?? new EdgeListener(this.#context, part, {
      places: this.#limiter(INBOUND_COLUMN, this.#options.maxConnections),
      limits: this.#options,
      routeTo: (upstream) => this.routeTo(upstream),
    });
    const door = this.#doors.replace(id, bind, current?.door, "strangers");
    const opening = { front, door, isSecure };
    this.#edges.set(id, opening);
    await this.#open(opening);
  }

  /** Where requests to that upstream go. */
  routeTo(id: string): RequestRoute | undefined {
    return this.#outbound(id)?.route;
  }

  #outbound(id: string): OutboundListener | undefined {
    return this.#upstreams.get(id)?.front ?? this.#unbound.get(id);
  }

  *#outbounds(): Iterable<OutboundListener> {
    for (const { front } of this.#upstreams.values()) yield front;
    yield* this.#unbound.values();
  }

  /** Open connections live on. */
  #removeGone<F extends ListenerFacts & { end?(): void }>(
    open: Map<string, Open<F>>,
    declared: Readonly<Record<string, unknown>>,
  ): void {
    for (const [name, { door, front }] of open) {
      if (declared[name]) continue;
      this.#doors.close(door);
      front.end?.();
      open.delete(name);
    }
  }

  #removeUpstreams(declared: Snapshot["upstreams"]): void {
    for (const [id, { door, front }] of this.#upstreams) {
      if (declared[id]) continue;
      this.#doors.close(door);
      this.#upstreams.delete(id);
      this.#removed.set(id, front);
      front.removed();
    }
    for (const [id, front] of this.#unbound) {
      if (declared[id]) continue;
      this.#unbound.delete(id);
      this.#removed.set(id, front);
      front.removed();
    }
    for (const id of this.#uncounted.keys()) {
      if (declared[id]) continue;
      this.#uncounted.delete(id);
      this.#doors.forget(id);
    }
    for (const [id, front] of this.#removed) {
      if (front.isUsed) continue;
      front.forget();
      this.#doors.forget(id);
      this.#removed.delete(id);
    }
  }

  async #applyUpstream(
    part: UpstreamPart,
    snapshot: Snapshot,
    column: number | undefined,
  ): Promise<void> {
    const { id, bind } = part;
    const { random, worker } = this.#options;
    const current = this.#upstreams.get(id);
    const isSecure = part.listener !== null;
    // A unix socket cannot be shared between workers: the first one serves it.
    if (bind?.kind === "unix" && worker > 0) {
      if (current) this.#doors.close(current.door);
      this.#upstreams.delete(id);
      return;
    }
    if (bind && current?.isSecure === isSecure && isOpenAt(current.door, bind)) return;
    if (column === undefined) return bind ? await this.#refuseUncounted(id, bind) : undefined;
    this.#uncounted.delete(id);
    const known = this.#outbound(id) ?? this.#removed.get(id);
    const front = known ?? new OutboundListener(
      this.#context,
      new Upstream(part, {
        stats: new ListenerStats(this.#context.stats, "outbound", id),
        connections: this.#limiter(column, part.maxConnections),
        pending: this.#limiter(column + 1, part.maxPending),
        requests: this.#limiter(column + 2, part.maxRequests),
        callers: this.#limiter(column + 3, part.maxClientConnections ?? Infinity),
        random,
      }),
    );
    const isNew = !this.#outbound(id);
    this.#removed.delete(id);
    this.#unbound.delete(id);
    if (isNew) front.upstream.update(part, snapshot);
    if (!bind) {
      if (current) this.#doors.close(current.door);
      this.#upstreams.delete(id);
      this.#unbound.set(id, front);
      return;
    }
    const callers = isSecure ? "strangers" : "own";
    const door = this.#doors.replace(id, bind, current?.door, callers);
    const opening = { front, door, isSecure };
    this.#upstreams.set(id, opening);
    await this.#open(opening);
  }

  async #open({ front, door, isSecure }: Open<ListenerFacts>): Promise<void> {
    const { engine } = this.#context;
    const options = { address: door.bind, reusePort: this.#options.workers > 1 };
    const outbound = front instanceof OutboundListener ? front : undefined;
    const accept = (caller: AcceptedConnection | Connection) => {
      if (!this.#doors.admits(door)) return caller.reset();
      if (outbound?.isNoted === false) this.#note(outbound);
      this.#doors.strained(door, new Downstream(front, caller).accept());
    };
    await this.#doors.open(
      door,
      () => isSecure ? engine.listenSecure(options, accept) : engine.listen(options, accept),
    );
  }

  #note(outbound: OutboundListener): void {
    outbound.isNoted = true;
    this.#options.onFirstUse?.(outbound.name);
  }

  /** Upstreams that connections came to since this was read last, or that have some open. */
  used(): string[] {
    const used: string[] = [];
    for (const outbound of this.#outbounds()) {
      const { isUsed, isNoted, name } = outbound;
      if (isUsed || isNoted) used.push(name);
      outbound.isNoted = isUsed;
    }
    return used;
  }

  /** Not opened: the limits of the others would be wrong. */
  async #refuseUncounted(id: string, bind: BindAddress): Promise<void> {
    const door = this.#doors.replace(id, bind, this.#uncounted.get(id), "own");
    this.#uncounted.set(id, door);
    const reason =
      `Cannot open upstream ${id}: ${MAX_UPSTREAMS} are declared, or have connections ` +
      "that are still open; declare fewer";
    await this.#doors.open(door, () => Promise.reject(new ProxyError("listen_failed", reason)));
  }

  #limiter(column: number, limit: number): SharedLimiter {
    const { counts, worker } = this.#options;
    return new SharedLimiter(counts, { row: worker, column, limit });
  }

  /** By their names; upstreams without a listener, too. */
  get fronts(): ReadonlyMap<string, AnyListener> {
    const fronts = [...this.#all().map(({ front }) => front), ...this.#unbound.values()];
    return new Map(fronts.map((front) => [front.name, front]));
  }

  views(): ListenerView[] {
    const { facts: { draining }, clock } = this.#context;
    const now = { draining, nowMs: clock.monotonic() };
    return [
      ...this.#all().map(({ front, door }) => viewOf(door, { ...now, front })),
      ...[...this.#uncounted.values()].map((door) => viewOf(door, now)),
    ];
  }

  endpoints(nowMs: number): EndpointView[] {
    return [...this.#outbounds()].flatMap(({ upstream }) =>
      [...upstream.groups].flatMap(({ targets }) =>
        [...targets].flatMap(({ part, pool }) =>
          pool.views(nowMs).map((endpoint) => ({ target: part.key, ...endpoint }))
        )
      )
    );
  }

  /** After each change: whatever is kept for requests to come must be what they would get anew. */
  update(judge: boolean): void {
    for (const { front } of this.#locals()) front.update();
    for (const outbound of this.#outbounds()) outbound.update(judge);
  }

  #locals(): Open<InboundListener | ExposedListener>[] {
    return [...this.#inbounds.values(), ...this.#exposed.values()];
  }

  #all(): Open<InboundListener | ExposedListener | EdgeListener | OutboundListener>[] {
    return [...this.#locals(), ...this.#edges.values(), ...this.#upstreams.values()];
  }

  /** Open connections live on. */
  stopAccepting(): void {
    for (const { door } of this.#all()) this.#doors.close(door);
  }

  /** Nothing is looked after any more. */
  end(): void {
    for (const { front } of this.#locals()) front.end();
    for (const outbound of this.#outbounds()) outbound.end();
    this.#doors.end();
  }
}
