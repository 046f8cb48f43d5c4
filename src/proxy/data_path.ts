/** The data path of one thread: the snapshot in force, its listeners and connections. @module */

import {
  type Clock,
  Deadlines,
  type Log,
  NO_CONDITIONS,
  prepareRegexes,
  ProxyError,
  type Sample,
  Stats,
  systemRandom,
  type TakeConditions,
  turnClock,
} from "../base/mod.ts";
import { ClientCertElements, HELD_LIMIT_BYTES, HeldBytes, RequestIds } from "../http/mod.ts";
import { needsMatchers } from "../identity/mod.ts";
import type { Engine, ListeningSocket } from "../net/mod.ts";
import { compilePolicy, policyNeedsRegexes, type RequestPolicy } from "../policy/mod.ts";
import {
  Generations,
  type HookMarks,
  type LoadPlugin,
  type OpenSharedCells,
  type PreparedGenerations,
  SharedState,
} from "../plugin/mod.ts";
import { loadBuiltIn } from "../built_in/mod.ts";
import { patchSnapshot, type Snapshot, type SnapshotUpdate } from "../snapshot/mod.ts";
import { PROCESS_COLUMN, SharedLimiter } from "./core/admission.ts";
import type { Context, Facts, RemoteAuthorize } from "./core/context.ts";
import { forgetTarget } from "./upstream/endpoint_failure.ts";
import { explain } from "./explain/explain.ts";
import type { ExplainQuery, ExplainResult } from "./explain/explanation.ts";
import { handshakeLimit, Handshakes } from "./core/handshakes.ts";
import { type Columns, Listeners, type ListenersOptions } from "./listen/listeners.ts";
import { pluginsOf } from "./listen/listener_plugins.ts";
import { LiveConnections, type PublishEffect } from "./core/live_connections.ts";
import { AccessLogger, type TakeLine } from "./observe/access_logger.ts";
import { AccessRecords, type TakeAccessRecord } from "./observe/access_records.ts";
import { ConditionReporter } from "./observe/condition_reporter.ts";
import { connectionLog, FailureSummary } from "./observe/failure_summary.ts";
import { type ConnectionObserver, NO_OBSERVERS, observersOf } from "./observe/observers.ts";
import { RefusalConditions } from "./observe/refusal_conditions.ts";
import { type OpenTap, type TakeTapped, Tap } from "./observe/tap.ts";
import { type TakeSpan, Tracer } from "./observe/tracer.ts";
import { ProxyCallees } from "./service/proxy_callees.ts";
import {
  type FetchCertificate,
  type PreparedTrustContexts,
  TrustContexts,
} from "./trust/trust_contexts.ts";
import { TrafficTable } from "./observe/traffic_table.ts";
import { UpstreamRefusals } from "./observe/upstream_refusals.ts";
import {
  type DataView,
  type Ejection,
  type ListenerView,
  NO_TRAFFIC,
  type ViewOptions,
} from "./observe/view.ts";

export interface DataPathOptions extends ListenersOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: Log;
  readonly remoteAuthorize: RemoteAuthorize;
  readonly fetchCertificate: FetchCertificate;
  /** Default: loads built-in plugins. */
  readonly loadPlugin?: LoadPlugin;
  /** Shows which plugin runs; default: a plugin that holds the thread is not noticed. */
  readonly marks?: HookMarks;
  /** Memory that plugins of all workers share; default: there is one worker. */
  readonly lendCells?: OpenSharedCells;
  /** Limit of the bytes held for slow peers; default: 64 MiB. */
  readonly heldBytes?: number;
  /** Takes the lines of the access log, including those of plugins; default: they are dropped. */
  readonly takeLine?: TakeLine;
  /** Takes records of requests and connections for a collector; default: there is none. */
  readonly takeAccessRecord?: TakeAccessRecord;
  /** Takes finished spans; default: there is no tracing. */
  readonly takeSpan?: TakeSpan;
  /** Takes conditions that began or ended; default: they are only logged. */
  readonly takeConditions?: TakeConditions;
  /** Takes the lines of taps; default: there are no taps. */
  readonly takeTapped?: TakeTapped;
}

/** The main thread waits for all workers, so preparation has a limit. */
const PREPARE_LIMIT_MS = 10_000;

interface Prepared {
  readonly snapshot: Snapshot;
  readonly requestPolicy: RequestPolicy | undefined;
  readonly trusts: PreparedTrustContexts;
  readonly generations: PreparedGenerations;
}

export class DataPath {
  readonly stats = new Stats();
  /** `bun 1.4.5`. */
  readonly engineName: string;
  readonly #options: DataPathOptions;
  readonly #context: Context;
  readonly #facts: Facts;
  readonly #heldGauges = {
    bytes: this.stats.gauge(
      "held_bytes",
      "Bytes held in memory for callers or instances that read more slowly than the other side sends",
    ),
    limit: this.stats.gauge(
      "held_bytes_limit",
      "Most bytes that may be held for slow sides, of all data workers together",
    ),
    strained: this.stats.gauge(
      "held_bytes_strained",
      "Data workers that hold more than half of their limit for slow sides",
    ),
  };
  readonly #loopLag = this.stats.histogram(
    "worker_loop_lag_ms",
    "Delay of a timer that each data worker with connections has once a second",
  );
  readonly #listeners: Listeners;
  readonly #generations: Generations;
  readonly #callees: ProxyCallees;
  readonly #traffic: TrafficTable;
  readonly #conditions: ConditionReporter | undefined;
  readonly #refusals: RefusalConditions | undefined;
  #connectionLog: ConnectionObserver | undefined;
  #taps: readonly Tap[] = [];
  #records: AccessRecords | undefined;
  /** Version of the part that they follow. */
  #recordsOf: number | undefined;
  #prepared: Prepared | undefined;
  /** Number of calls of `prepare`; a later call overtakes an earlier one. */
  #prepares = 0;
  #snapshot: Snapshot | undefined;
  #columns: Columns = {};

  constructor(options: DataPathOptions) {
    this.#options = options;
    const { engine, clock, log, worker, workers, counts, maxConnections } = options;
    this.engineName = engine.name;
    const { fetchCertificate, remoteAuthorize } = options;
    this.#facts = {
      service: "",
      trusts: new TrustContexts({ engine, now: () => clock.now(), fetchCertificate }),
      policy: undefined,
      requestPolicy: undefined,
      accessLog: undefined,
      tracer: undefined,
      observers: NO_OBSERVERS,
      plugins: undefined,
      draining: false,
      drainingInbound: false,
    };
    this.#conditions = options.takeConditions &&
      new ConditionReporter(clock, options.takeConditions);
    const heldBytes = options.heldBytes ?? HELD_LIMIT_BYTES;
    const held = new HeldBytes(heldBytes, () => engine.collect());
    const sums = new FailureSummary({ clock, log });
    this.#context = {
      engine,
      clock: turnClock(clock),
      deadlines: new Deadlines(clock),
      log,
      stats: this.stats,
      live: new LiveConnections(clock, (lateMs) => {
        this.#loopLag.observe(lateMs);
        held.turn();
      }),
      handshakes: new Handshakes({
        clock,
        limit: Math.ceil(handshakeLimit(maxConnections) / workers),
      }),
      sums,
      refusals: new UpstreamRefusals({ clock, log, sums }),
      conditions: this.#conditions ?? NO_CONDITIONS,
      held,
      requestIds: new RequestIds(),
      clientCerts: new ClientCertElements(),
      processLimit: new SharedLimiter(counts, {
        row: worker,
        column: PROCESS_COLUMN,
        limit: maxConnections,
      }),
      remoteAuthorize,
      facts: this.#facts,
    };
    this.#generations = new Generations({
      log,
      clock,
      stats: this.stats,
      random: systemRandom,
      shared: new SharedState(options),
      conditions: this.#context.conditions,
      ...(options.marks && { marks: options.marks }),
      ...(options.takeLine && { takeLine: options.takeLine }),
    }, options.loadPlugin ?? loadBuiltIn);
    this.#refusals = this.#conditions && new RefusalConditions(clock, this.#conditions);
    this.#traffic = new TrafficTable(this.#context.clock, this.#refusals?.refused);
    this.#listeners = new Listeners(this.#context, options);
    this.#callees = new ProxyCallees(this.#context, {
      workers,
      routeTo: (upstream) => this.#listeners.routeTo(upstream),
    });
  }

  /**
   * Prepares `update` without touching what serves. Every fault of a snapshot throws here, and then no part of
   * it is published: an update that does not fit the snapshot in force, credentials that the TLS library
   * refuses, invalid rules about peers, or a preparation longer than {@link PREPARE_LIMIT_MS}. An address that
   * cannot be bound is no fault: others may use it for a while, so its listener has failed and is retried.
   */
  async prepare(update: SnapshotUpdate): Promise<void> {
    this.abandon();
    const turn = this.#prepares;
    const late = Promise.withResolvers<never>();
    const timer = this.#options.clock.after(PREPARE_LIMIT_MS, () => {
      const reason = `Cannot prepare the snapshot: not done after ${PREPARE_LIMIT_MS / 1_000} s`;
      late.reject(new ProxyError("snapshot_invalid", reason));
    });
    const preparing = this.#prepare(update).then((prepared) => {
      if (turn === this.#prepares) this.#prepared = prepared;
      else this.#generations.giveUp(prepared.generations);
    });
    try {
      await Promise.race([preparing, late.promise]);
    } catch (error) {
      // A preparation that finishes too late is not published.
      if (turn === this.#prepares) this.#prepares++;
      throw error;
    } finally {
      timer.cancel();
    }
  }

  /** Drops what was prepared, and what is being prepared. */
  abandon(): void {
    this.#prepares++;
    if (this.#prepared) this.#generations.giveUp(this.#prepared.generations);
    this.#prepared = undefined;
  }

  async #prepare(update: SnapshotUpdate): Promise<Prepared> {
    const snapshot = patchSnapshot(this.#snapshot, update);
    if (!snapshot) throw new ProxyError("snapshot_invalid", "Cannot use the snapshot: not whole");
    const rules = Object.values(update.validations);
    if (rules.some((part) => part && needsMatchers(part.validation))) await prepareRegexes();
    const requestPolicy = await this.#requestPolicy(snapshot);
    const trusts = this.#facts.trusts.prepare(snapshot);
    // Plugins come last, since they would have to be closed if another step failed.
    const generations = await this.#generations.prepare(pluginsOf(snapshot), {
      version: snapshot.version,
      pluginCode: snapshot.pluginCode,
      callees: this.#callees.of(snapshot),
    });
    return { snapshot, requestPolicy, trusts, generations };
  }

  /** The policy in force if no intention has changed; `undefined` if no listener judges requests. */
  async #requestPolicy({ policy, inbound }: Snapshot): Promise<RequestPolicy | undefined> {
    if (Object.values(inbound).every(({ http }) => http === null)) return undefined;
    const current = this.#facts.requestPolicy;
    if (current && this.#facts.policy?.version === policy.version) return current;
    if (policyNeedsRegexes(policy)) await prepareRegexes();
    return compilePolicy(policy);
  }

  /** Publishes what was prepared last; resolves with its effects when its listeners are bound or have failed. */
  async publish(columns: Columns): Promise<readonly PublishEffect[]> {
    const prepared = this.#prepared;
    if (!prepared) throw new ProxyError("internal", "Cannot publish: nothing is prepared");
    this.#prepared = undefined;
    const { snapshot } = prepared;
    const previous = this.#snapshot;
    this.#snapshot = snapshot;
    this.#columns = columns;
    const { policy, service } = snapshot;
    this.#facts.service = service;
    const judgedOtherwise = this.#facts.trusts.take(prepared.trusts);
    this.#facts.policy = policy;
    this.#facts.requestPolicy = prepared.requestPolicy;
    this.#generations.publish(prepared.generations);
    this.#facts.plugins = prepared.generations.all.size > 0 ? this.#generations : undefined;
    this.#observe(snapshot);
    // Credentials come first: connections are judged by the credentials that their part names.
    const goesByOthers = this.#listeners.take(snapshot);
    const judge = judgedOtherwise || goesByOthers || previous?.policy.version !== policy.version;
    this.#listeners.update(judge);
    const effects = judge ? this.#context.live.rejudge() : [];
    for (const key of Object.keys(previous?.targets ?? {})) {
      if (!snapshot.targets[key]) forgetTarget(this.stats, key);
    }
    this.#traffic.keepTargets(snapshot.targets);
    await this.#listeners.apply(snapshot, columns);
    return effects;
  }

  /** A promise or timer of a plugin failed that nothing waited for: `/plugins` shows it. */
  failedLoosely(plugin: string, reason: string): void {
    this.#generations.failedLoosely(plugin, reason);
  }

  /** Replaces the open taps; connections and requests that end from now on are seen by them. */
  setTaps(wanted: readonly OpenTap[]): void {
    const { takeTapped: take } = this.#options;
    const { clock } = this.#context;
    const before = this.#taps;
    this.#taps = take
      ? wanted.map((open) =>
        before.find((tap) => tap.open.id === open.id) ?? new Tap(open, { clock, take })
      )
      : [];
    for (const tap of before) if (!this.#taps.includes(tap)) tap.close();
    if (this.#facts.observers !== NO_OBSERVERS) this.#observeAll();
  }

  /** Observers of every listener: the traffic table, the log, and access log and tracer if there are any. */
  #observe({ accessLog, tracing, telemetry }: Snapshot): void {
    const { takeLine, takeSpan, takeAccessRecord: takeRecord } = this.#options;
    const facts = this.#facts;
    const sendsRecords = telemetry?.logs?.access === true && takeRecord !== undefined;
    const isSame = facts.accessLog?.part.version === accessLog?.version &&
      facts.tracer?.part.version === tracing?.version &&
      this.#recordsOf === telemetry?.version;
    if (isSame && facts.observers !== NO_OBSERVERS) return;
    const { clock, log, sums } = this.#context;
    facts.accessLog = accessLog && takeLine
      ? new AccessLogger(accessLog, { clock, take: takeLine, stats: this.stats })
      : undefined;
    this.#records = sendsRecords
      ? new AccessRecords(telemetry?.logs?.sampling, { clock, take: takeRecord, stats: this.stats })
      : undefined;
    facts.tracer = tracing && takeSpan ? new Tracer(tracing, { clock, take: takeSpan }) : undefined;
    this.#connectionLog ??= connectionLog({ log, sums, clock });
    this.#observeAll();
  }

  #observeAll(): void {
    const { accessLog, tracer } = this.#facts;
    const lines = this.#connectionLog;
    const optional = [accessLog, tracer, this.#records].filter((observer) =>
      observer !== undefined
    );
    const observers = [this.#traffic, ...optional, ...this.#taps];
    this.#facts.observers = observersOf(
      [...lines ? [lines] : [], ...observers.map(({ connections }) => connections)],
      observers.map(({ exchanges }) => exchanges),
    );
  }

  /** Retries listeners that could not be bound. True: all are bound. */
  async retryFailed(): Promise<boolean> {
    if (this.#snapshot && !this.#facts.draining) {
      await this.#listeners.apply(this.#snapshot, this.#columns);
    }
    return this.listeners().every(({ state }) => state === "listening");
  }

  listeners(): ListenerView[] {
    return this.#listeners.views();
  }

  /** Ids of the upstreams used since the last call. */
  used(): string[] {
    return this.#listeners.used();
  }

  view(options: ViewOptions): DataView {
    const { clock, worker } = this.#options;
    const nowMs = clock.monotonic();
    const now = { ms: nowMs, tick: this.#context.live.tick, tickMs: this.#context.live.tickMs };
    return {
      worker,
      snapshotVersion: this.#snapshot?.version ?? 0,
      listeners: this.listeners(),
      // Each thread counts from 1.
      connections: [...options.connections ? this.#context.live : []].map(({ record }) => ({
        ...record.view(now),
        id: `${worker}-${record.id}`,
      })),
      endpoints: this.#listeners.endpoints(nowMs),
      refusing: this.#context.refusals.view(),
      plugins: this.#generations.views(),
      samples: options.samples === false ? [] : this.#samples(),
      traffic: options.samples === false ? NO_TRAFFIC : this.#traffic.view(this.#context.live),
    };
  }

  #samples(): Sample[] {
    const { bytes, limitBytes, isStrained } = this.#context.held;
    this.#heldGauges.bytes.set(bytes);
    this.#heldGauges.limit.set(limitBytes);
    this.#heldGauges.strained.set(isStrained ? 1 : 0);
    return this.stats.samples();
  }

  /** Explains how a request would be handled, without sending it; `undefined`: there is no snapshot yet. */
  async explain(question: ExplainQuery): Promise<ExplainResult | undefined> {
    const snapshot = this.#snapshot;
    if (!snapshot) return undefined;
    // One worker probes endpoints.
    const connects = question.connects && this.#options.worker === 0;
    const listeners = this.listeners();
    return await explain({ ...question, connects }, {
      snapshot,
      listeners: this.#listeners.byName,
      faultOf: (name) => {
        const found = listeners.find((listener) => listener.name === name);
        return found?.state === "failed" ? found.error : "";
      },
    });
  }

  /** Drains the inbound listeners: open and new callers are asked to close their connections. */
  drainInbound(): void {
    this.#facts.drainingInbound = true;
    this.#context.live.drain("inbound");
  }

  /** Accepts connections, where the start with inherited sockets has held them. */
  accept(): void {
    this.#listeners.accept();
  }

  /** Goes on with ejections of the process before. */
  resume(ejections: readonly Ejection[]): void {
    this.#listeners.resume(ejections, this.#options.clock.monotonic());
  }

  /** Copies of the listening sockets, for another process. */
  sockets(): ListeningSocket[] {
    return this.#listeners.sockets();
  }

  /**
   * Stops accepting; resolves when the last connection has ended or after `timeoutMs`. `handedOver`:
   * another process goes on accepting.
   */
  async drain(timeoutMs: number, options?: { readonly handedOver: boolean }): Promise<void> {
    this.#facts.draining = true;
    this.#listeners.stopAccepting(options);
    this.#context.deadlines.after(timeoutMs, () => {
      this.#context.live.endAll("drained", `still open after ${timeoutMs} ms of draining`);
    });
    this.#context.live.drain();
    await this.#context.live.drained();
    this.#context.sums.flush();
    await this.#generations.close();
  }

  close(): void {
    this.#stopAccepting();
    this.#listeners.end();
    this.#context.live.endAll("closed", "the proxy is stopping");
    this.#context.sums.flush();
    this.#conditions?.close();
    this.#refusals?.close();
    this.abandon();
    void this.#generations.close();
  }

  #stopAccepting(): void {
    this.#facts.draining = true;
    this.#listeners.stopAccepting();
  }
}
