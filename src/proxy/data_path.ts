/**
 * The data path of one thread: all its listeners, brought in line with each snapshot. A change touches
 * only what it is about; connections of everything else do not notice.
 *
 * @module
 */

import { type Clock, Deadlines, type Log, ProxyError, type Random, Stats } from "../base/mod.ts";
import { needsMatchers, prepareMatchers } from "../identity/mod.ts";
import type { Engine } from "../net/mod.ts";
import {
  patchSnapshot,
  type Snapshot,
  type SnapshotUpdate,
  type UpstreamPart,
} from "../snapshot/mod.ts";
import {
  INBOUND_COLUMN,
  Limiter,
  MAX_UPSTREAMS,
  PROCESS_COLUMN,
  reservedFor,
  type SharedCounts,
} from "./admission.ts";
import { ListenerStats } from "./connection.ts";
import type { Context, Facts, RemoteAuthorize } from "./context.ts";
import { type Door, Doors, isOpenAt, viewOf } from "./doors.ts";
import { forgetTarget } from "./endpoint_failure.ts";
import { handshakeLimit, Handshakes } from "./handshakes.ts";
import { InboundConnection, type InboundState } from "./inbound.ts";
import { LiveSet } from "./live.ts";
import { OutboundConnection } from "./outbound.ts";
import { RefusalSums } from "./refusal_sums.ts";
import { type FetchCertificate, Trusts } from "./trusts.ts";
import { Upstream } from "./upstream.ts";
import type { DataView, ListenerView } from "./view.ts";

export interface DataPathOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Which row of the shared counts is ours. */
  readonly worker: number;
  readonly workers: number;
  readonly counts: SharedCounts;
  readonly maxConnections: number;
  readonly remoteAuthorize: RemoteAuthorize;
  readonly fetchCertificate: FetchCertificate;
  /** Of the inbound listener; upstreams carry their own. */
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
}

interface OpenUpstream {
  readonly upstream: Upstream;
  readonly door: Door;
  /** Its callers must speak TLS. */
  readonly isSecure: boolean;
}

/** First column of each upstream in the shared counts, the same for all workers. */
export type Columns = Readonly<Record<string, number>>;

export class DataPath {
  readonly stats = new Stats();
  /** `bun 1.4.5`. */
  readonly engineName: string;
  readonly #options: DataPathOptions;
  readonly #context: Context;
  readonly #facts: Facts;
  readonly #live: LiveSet;
  #preparing: Promise<void> | undefined;
  #snapshot: Snapshot | undefined;
  #columns: Columns = {};
  readonly #doors: Doors;
  #inbound: { readonly state: InboundState; readonly door: Door } | undefined;
  readonly #upstreams = new Map<string, OpenUpstream>();
  /** Those with connections that are still open. */
  readonly #removed = new Map<string, Upstream>();
  /** Declared, and there is no column to count them in. */
  readonly #uncounted = new Map<string, Door>();

  constructor(options: DataPathOptions) {
    this.#options = options;
    this.engineName = options.engine.name;
    const { engine, clock, random, log, worker, counts, maxConnections, remoteAuthorize } = options;
    const { fetchCertificate } = options;
    this.#facts = {
      service: "",
      trusts: new Trusts({ engine, log, now: () => clock.now(), fetchCertificate }),
      policy: undefined,
      draining: false,
    };
    this.#live = new LiveSet(clock);
    this.#doors = new Doors({ clock, log, stats: this.stats, workers: options.workers });
    this.#context = {
      engine,
      clock,
      random,
      deadlines: new Deadlines(clock),
      log,
      stats: this.stats,
      live: this.#live,
      handshakes: new Handshakes({
        clock,
        limit: Math.ceil(handshakeLimit(maxConnections) / options.workers),
      }),
      sums: new RefusalSums({ clock, log }),
      processLimit: new Limiter(counts, {
        row: worker,
        column: PROCESS_COLUMN,
        limit: maxConnections,
      }),
      remoteAuthorize,
      facts: this.#facts,
    };
  }

  /** Brings everything in line with the update; resolves when its listeners are bound or have failed. */
  async apply(update: SnapshotUpdate, columns: Columns): Promise<void> {
    const rules = Object.values(update.validations);
    if (rules.some((part) => part && needsMatchers(part.validation))) {
      this.#preparing ??= prepareMatchers();
    }
    // Updates build on each other: those that need nothing wait, too.
    if (this.#preparing) await this.#preparing;
    await this.#apply(update, columns);
  }

  async #apply(update: SnapshotUpdate, columns: Columns): Promise<void> {
    const snapshot = patchSnapshot(this.#snapshot, update);
    if (!snapshot) return;
    const previous = this.#snapshot;
    this.#snapshot = snapshot;
    this.#columns = columns;
    const { policy, service } = snapshot;
    this.#facts.service = service;
    const judgedOtherwise = this.#facts.trusts.update(snapshot);
    this.#facts.policy = policy;
    // Before anything is judged: connections are judged by the credentials that their part names.
    const goesByOthers = this.#takeParts(snapshot);
    if (judgedOtherwise || goesByOthers || previous?.policy.version !== policy.version) {
      this.#live.rejudge();
    }
    for (const key of Object.keys(previous?.targets ?? {})) {
      if (!snapshot.targets[key]) forgetTarget(this.stats, key);
    }
    await Promise.all([this.#applyInbound(snapshot), this.#applyUpstreams(snapshot)]);
  }

  /** Hands parts to what is open already. True: some go by other credentials than before. */
  #takeParts(snapshot: Snapshot): boolean {
    const { inbound, upstreams } = snapshot;
    const state = this.#inbound?.state;
    let others = false;
    if (state && inbound) {
      others = state.part.credentials !== inbound.credentials;
      state.part = inbound;
    }
    for (const [id, { upstream }] of this.#upstreams) {
      const part = upstreams[id];
      if (!part) continue;
      const { credentials, listener } = upstream.part;
      others ||= part.credentials !== credentials ||
        part.listener?.credentials !== listener?.credentials;
      upstream.update(part, snapshot);
    }
    return others;
  }

  async #applyInbound(snapshot: Snapshot): Promise<void> {
    const { inbound: part } = snapshot;
    const current = this.#inbound;
    if (!part) {
      if (current) this.#doors.close(current.door);
      this.#inbound = undefined;
      return;
    }
    const { maxConnections, workers } = this.#options;
    const kept = reservedFor(Object.keys(snapshot.upstreams).length, maxConnections);
    const limit = Math.min(part.maxConnections || Infinity, maxConnections - kept);
    const state: InboundState = current?.state ?? {
      part,
      limit: this.#limiter(INBOUND_COLUMN, limit),
      stats: new ListenerStats(this.stats, "inbound", "inbound"),
      idleTimeoutMs: this.#options.idleTimeoutMs,
      lifetimeMs: this.#options.lifetimeMs,
    };
    state.part = part;
    state.limit.limit = limit;
    if (isOpenAt(current?.door, part.bind)) return;
    const door = this.#doors.replace("inbound", part.bind, current?.door, "strangers");
    this.#inbound = { state, door };
    await this.#doors.open(door, () =>
      this.#context.engine.listenSecure(
        { address: part.bind, reusePort: workers > 1 },
        (accepted) => {
          if (!this.#doors.admits(door)) return accepted.reset();
          this.#doors.strained(door, InboundConnection.start(this.#context, state, accepted));
        },
      ));
  }

  async #applyUpstreams(snapshot: Snapshot): Promise<void> {
    for (const [id, { door, upstream }] of this.#upstreams) {
      if (snapshot.upstreams[id]) continue;
      this.#doors.close(door);
      this.#upstreams.delete(id);
      this.#removed.set(id, upstream);
      // Whoever was on the way to it takes no place any more.
      upstream.connections.limit = 0;
    }
    for (const id of this.#uncounted.keys()) {
      if (snapshot.upstreams[id]) continue;
      this.#uncounted.delete(id);
      this.#doors.forget(id);
    }
    for (const [id, { connections, stats }] of this.#removed) {
      if (connections.own > 0) continue;
      stats.forget();
      this.#doors.forget(id);
      this.#removed.delete(id);
    }
    const opening = Object.values(snapshot.upstreams).map((part) =>
      this.#applyUpstream(part, snapshot)
    );
    await Promise.all(opening);
  }

  async #applyUpstream(part: UpstreamPart, snapshot: Snapshot): Promise<void> {
    const { id, bind } = part;
    const current = this.#upstreams.get(id);
    const isSecure = part.listener !== null;
    if (current?.isSecure === isSecure && isOpenAt(current.door, bind)) return;
    // A unix socket cannot be shared between workers: the first one serves it.
    if (bind.kind === "unix" && this.#options.worker > 0) {
      if (current) this.#doors.close(current.door);
      this.#upstreams.delete(id);
      return;
    }
    const column = this.#columns[id];
    if (column === undefined) return await this.#refuseUncounted(part);
    this.#uncounted.delete(id);
    const upstream = current?.upstream ?? this.#removed.get(id) ?? new Upstream(part, {
      stats: new ListenerStats(this.stats, "outbound", id),
      connections: this.#limiter(column, part.maxConnections),
      pending: this.#limiter(column + 1, part.maxPending),
      random: this.#options.random,
    });
    this.#removed.delete(id);
    if (!current) upstream.update(part, snapshot);
    const callers = isSecure ? "strangers" : "own";
    const door = this.#doors.replace(id, bind, current?.door, callers);
    this.#upstreams.set(id, { upstream, door, isSecure });
    const { engine } = this.#context;
    const options = { address: bind, reusePort: this.#options.workers > 1 };
    await this.#doors.open(door, () =>
      isSecure
        ? engine.listenSecure(options, (accepted) => {
          if (!this.#doors.admits(door)) return accepted.reset();
          this.#doors.strained(
            door,
            OutboundConnection.startSecure(this.#context, upstream, accepted),
          );
        })
        : engine.listen(options, (connection) => {
          if (!this.#doors.admits(door)) return connection.reset();
          this.#doors.strained(door, OutboundConnection.start(this.#context, upstream, connection));
        }));
  }

  /** Not opened: the limits of the others would be wrong. */
  async #refuseUncounted({ id, bind }: UpstreamPart): Promise<void> {
    const door = this.#doors.replace(id, bind, this.#uncounted.get(id), "own");
    this.#uncounted.set(id, door);
    const reason =
      `Cannot open upstream ${id}: ${MAX_UPSTREAMS} are declared, or have connections ` +
      "that are still open; declare fewer";
    await this.#doors.open(
      door,
      () => Promise.reject(new ProxyError("listen_failed", reason)),
    );
  }

  #limiter(column: number, limit: number): Limiter {
    const { counts, worker } = this.#options;
    return new Limiter(counts, { row: worker, column, limit });
  }

  /** Tries listeners again that could not be bound. True: all are. */
  async retryFailed(): Promise<boolean> {
    if (this.#snapshot && !this.#facts.draining) {
      await Promise.all([
        this.#applyInbound(this.#snapshot),
        this.#applyUpstreams(this.#snapshot),
      ]);
    }
    return this.listeners().every(({ state }) => state === "listening");
  }

  listeners(): ListenerView[] {
    const { draining, trusts } = this.#facts;
    const inbound = this.#inbound && viewOf(this.#inbound.door, {
      direction: "inbound",
      draining,
      fault: trusts.fault(this.#inbound.state.part.credentials),
      connections: this.#inbound.state.stats.active.value,
    });
    const outbound = [...this.#upstreams.values()].map(({ upstream, door }) =>
      viewOf(door, {
        direction: "outbound",
        draining,
        fault: (upstream.part.listener && trusts.fault(upstream.part.listener.credentials)) ||
          trusts.fault(upstream.part.credentials),
        connections: upstream.stats.active.value,
      })
    );
    const uncounted = [...this.#uncounted.values()].map((door) =>
      viewOf(door, { direction: "outbound", draining, fault: "", connections: 0 })
    );
    return [...inbound ? [inbound] : [], ...outbound, ...uncounted];
  }

  view(options: { readonly connections: boolean }): DataView {
    const { clock, worker } = this.#options;
    const nowMs = clock.monotonic();
    const now = { ms: nowMs, tick: this.#live.tick, tickMs: this.#live.tickMs };
    return {
      worker,
      snapshotVersion: this.#snapshot?.version ?? 0,
      listeners: this.listeners(),
      connections: options.connections
        // Each thread counts from 1.
        ? [...this.#live].map(({ record }) => ({
          ...record.view(now),
          id: `${worker}-${record.id}`,
        }))
        : [],
      endpoints: [...this.#upstreams.values()].flatMap(({ upstream }) =>
        [...upstream.targets].flatMap(({ part, pool }) =>
          pool.views(nowMs).map((endpoint) => ({ target: part.key, ...endpoint }))
        )
      ),
      samples: this.stats.samples(),
    };
  }

  /** Stops accepting; resolves when the last connection has ended or after `timeoutMs`. */
  async drain(timeoutMs: number): Promise<void> {
    this.#stopAccepting();
    const deadline = this.#context.deadlines.after(timeoutMs, () => {
      this.#live.endAll("drained", `still open after ${timeoutMs} ms of draining`);
    });
    await this.#live.drained();
    deadline.cancel();
    this.#context.sums.flush();
  }

  /** Ends everything at once. */
  close(): void {
    this.#stopAccepting();
    this.#doors.end();
    this.#live.endAll("closed", "the proxy is stopping");
    this.#context.sums.flush();
  }

  #stopAccepting(): void {
    this.#facts.draining = true;
    if (this.#inbound) this.#doors.close(this.#inbound.door);
    for (const { door } of this.#upstreams.values()) this.#doors.close(door);
  }
}
