/**
 * The data path of one thread: all its listeners, brought in line with each snapshot. A change touches
 * only what it is about; connections of everything else do not notice.
 *
 * @module
 */

import {
  type BindAddress,
  type Clock,
  Deadlines,
  formatAddress,
  type Log,
  messageOf,
  type Random,
  Stats,
} from "../base/mod.ts";
import type { Engine, Listener } from "../net/mod.ts";
import { patchSnapshot, type Snapshot, type SnapshotUpdate } from "../snapshot/mod.ts";
import { Limiter, PROCESS_COLUMN, type SharedCounts } from "./admission.ts";
import { ListenerStats } from "./connection.ts";
import type { Context, Facts, RemoteAuthorize } from "./context.ts";
import { InboundConnection, type InboundState } from "./inbound.ts";
import { LiveSet } from "./live.ts";
import { OutboundConnection } from "./outbound.ts";
import { Trust } from "./trust.ts";
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
  /** Of the inbound listener; upstreams carry their own. */
  readonly idleTimeoutMs: number;
  readonly lifetimeMs: number;
}

/** Columns of the shared counts, the same for all workers; see {@link SharedCounts}. */
export type Columns = Readonly<Record<string, number>>;

interface Bound {
  readonly key: string;
  readonly bind: BindAddress;
  listener: Listener | undefined;
  error: string;
  /** What the attempt before this one failed with. */
  readonly said?: string | undefined;
  /** Listens on the address before, until this one does. */
  before?: Listener | undefined;
}

export class DataPath {
  readonly stats = new Stats();
  /** `bun 1.4.5`. */
  readonly engineName: string;
  readonly #options: DataPathOptions;
  readonly #context: Context;
  readonly #facts: Facts = {
    service: "",
    trust: undefined,
    policy: undefined,
    draining: false,
  };
  readonly #live: LiveSet;
  #snapshot: Snapshot | undefined;
  #columns: Columns = {};
  #inbound: { state: InboundState; bound: Bound } | undefined;
  readonly #upstreams = new Map<string, { upstream: Upstream; bound: Bound }>();

  constructor(options: DataPathOptions) {
    this.#options = options;
    this.engineName = options.engine.name;
    const { engine, clock, random, log, worker, counts, maxConnections, remoteAuthorize } = options;
    this.#live = new LiveSet(clock);
    this.#context = {
      engine,
      clock,
      random,
      deadlines: new Deadlines(clock),
      log,
      stats: this.stats,
      live: this.#live,
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
    const snapshot = patchSnapshot(this.#snapshot, update);
    if (!snapshot) return;
    const previous = this.#snapshot;
    this.#snapshot = snapshot;
    this.#columns = columns;
    const { credentials, policy, tls, service } = snapshot;
    this.#facts.service = service;
    const trustChanged = !this.#facts.trust ||
      previous?.credentials.version !== credentials.version || previous.tls.version !== tls.version;
    if (trustChanged) this.#facts.trust = new Trust(this.#options.engine, credentials, tls);
    this.#facts.policy = policy;
    if (trustChanged || previous?.policy.version !== policy.version) this.#live.rejudge();
    await Promise.all([this.#applyInbound(snapshot), this.#applyUpstreams(snapshot)]);
  }

  async #applyInbound(snapshot: Snapshot): Promise<void> {
    const { inbound: part } = snapshot;
    const current = this.#inbound;
    if (!part) {
      if (current) closeAll(current.bound);
      this.#inbound = undefined;
      return;
    }
    const limit = part.maxConnections || Infinity;
    if (current) {
      current.state.part = part;
      current.state.limit.limit = limit;
    }
    const key = formatAddress(part.bind);
    if (current && current.bound.key === key && (current.bound.listener || !current.bound.error)) {
      return;
    }
    const state: InboundState = current?.state ?? {
      part,
      limit: this.#limiter("inbound", limit),
      stats: new ListenerStats(this.stats, "inbound", "inbound"),
      idleTimeoutMs: this.#options.idleTimeoutMs,
      lifetimeMs: this.#options.lifetimeMs,
    };
    const before = current?.bound.listener ?? current?.bound.before;
    const said = current?.bound.error;
    const bound: Bound = { key, bind: part.bind, listener: undefined, error: "", said, before };
    this.#inbound = { state, bound };
    await this.#bind(bound, "inbound", () =>
      this.#context.engine.listenSecure(
        { address: part.bind, reusePort: this.#options.workers > 1 },
        (accepted) => InboundConnection.start(this.#context, state, accepted),
      ));
    // The old address is given up only when the new one answers.
    if (bound.listener) closeAll({ listener: before });
  }

  async #applyUpstreams(snapshot: Snapshot): Promise<void> {
    for (const [id, { bound }] of this.#upstreams) {
      if (snapshot.upstreams[id]) continue;
      bound.listener?.close();
      this.#upstreams.delete(id);
    }
    const binding: Promise<void>[] = [];
    for (const [id, part] of Object.entries(snapshot.upstreams)) {
      const key = formatAddress(part.bind);
      const current = this.#upstreams.get(id);
      const upstream = current?.upstream ?? new Upstream(part, {
        stats: new ListenerStats(this.stats, "outbound", id),
        connections: this.#limiter(`${id} connections`, part.maxConnections),
        pending: this.#limiter(`${id} pending`, part.maxPending),
        random: this.#options.random,
      });
      upstream.update(part, snapshot.targets);
      if (current?.bound.key === key && (current.bound.listener || !current.bound.error)) continue;
      current?.bound.listener?.close();
      // A unix socket cannot be shared between workers: the first one serves it.
      if (part.bind.kind === "unix" && this.#options.worker > 0) continue;
      const said = current?.bound.error;
      const bound: Bound = { key, bind: part.bind, listener: undefined, error: "", said };
      this.#upstreams.set(id, { upstream, bound });
      binding.push(this.#bind(bound, id, () =>
        this.#context.engine.listen(
          { address: part.bind, reusePort: this.#options.workers > 1 },
          (connection) => OutboundConnection.start(this.#context, upstream, connection),
        )));
    }
    await Promise.all(binding);
  }

  async #bind(bound: Bound, name: string, listen: () => Promise<Listener>): Promise<void> {
    const { log } = this.#context;
    try {
      const listener = await listen();
      // Removed or replaced while it was being bound, or draining began.
      const current = name === "inbound" ? this.#inbound?.bound : this.#upstreams.get(name)?.bound;
      if (current !== bound || this.#facts.draining) return listener.close();
      bound.listener = listener;
      log.info("listener started", { listener: name, address: formatAddress(listener.address) });
    } catch (error) {
      bound.error = messageOf(error);
      this.stats.counter("listen_failures_total", "Listeners that could not be bound", {
        listener: name,
      }).add(1);
      // Tried every second; the same again is no news.
      const level = bound.said === bound.error ? "debug" : "error";
      log[level]("listener failed", { listener: name, error: bound.error });
    }
  }

  #limiter(name: string, limit: number): Limiter {
    const { counts, worker } = this.#options;
    const column = this.#columns[name];
    if (column === undefined) throw new Error(`no column for the limit of ${name}`);
    return new Limiter(counts, { row: worker, column, limit });
  }

  /** Names of everything in `snapshot` that has a limit, for assigning columns. */
  static limited(snapshot: Snapshot): string[] {
    return [
      "inbound",
      ...Object.keys(snapshot.upstreams).flatMap((id) => [`${id} connections`, `${id} pending`]),
    ];
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
    const views: ListenerView[] = [];
    const view = (name: string, direction: "inbound" | "outbound", bound: Bound, active: number) =>
      views.push({
        name,
        direction,
        address: formatAddress(bound.listener?.address ?? bound.bind),
        state: bound.listener ? this.#facts.draining ? "draining" : "listening" : "failed",
        error: bound.error,
        connections: active,
      });
    if (this.#inbound) {
      const { state, bound } = this.#inbound;
      view("inbound", "inbound", bound, state.stats.active.value);
    }
    for (const [id, { upstream, bound }] of this.#upstreams) {
      view(id, "outbound", bound, upstream.stats.active.value);
    }
    return views;
  }

  view(options: { readonly connections: boolean }): DataView {
    const { clock, worker } = this.#options;
    const nowMs = clock.monotonic();
    const now = { ms: nowMs, tick: this.#live.tick, tickMs: this.#live.tickMs };
    return {
      worker,
      snapshotVersion: this.#snapshot?.version ?? 0,
      listeners: this.listeners(),
      connections: options.connections ? [...this.#live].map(({ record }) => record.view(now)) : [],
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
    this.#facts.draining = true;
    if (this.#inbound) closeAll(this.#inbound.bound);
    for (const { bound } of this.#upstreams.values()) bound.listener?.close();
    const deadline = this.#context.deadlines.after(timeoutMs, () => {
      this.#live.endAll("drained", `still open after ${timeoutMs} ms of draining`);
    });
    await this.#live.drained();
    deadline.cancel();
  }

  /** Ends everything at once. */
  close(): void {
    this.#facts.draining = true;
    if (this.#inbound) closeAll(this.#inbound.bound);
    for (const { bound } of this.#upstreams.values()) bound.listener?.close();
    this.#live.endAll("closed", "the proxy is stopping");
  }
}

function closeAll({ listener, before }: Partial<Pick<Bound, "listener" | "before">>): void {
  listener?.close();
  before?.close();
}
