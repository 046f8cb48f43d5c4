/**
 * The data path of one thread: what is true now, the listeners that go by it, and the connections that are
 * judged again when it changes.
 *
 * @module
 */

import { type Clock, Deadlines, type Log, Stats } from "../base/mod.ts";
import { needsMatchers, prepareMatchers } from "../identity/mod.ts";
import type { Engine } from "../net/mod.ts";
import { patchSnapshot, type Snapshot, type SnapshotUpdate } from "../snapshot/mod.ts";
import { Limiter, PROCESS_COLUMN } from "./admission.ts";
import type { Context, Facts, RemoteAuthorize } from "./context.ts";
import { forgetTarget } from "./endpoint_failure.ts";
import { handshakeLimit, Handshakes } from "./handshakes.ts";
import { type Columns, Listeners, type ListenersOptions } from "./listeners.ts";
import { LiveSet } from "./live.ts";
import { RefusalSums } from "./refusal_sums.ts";
import { type FetchCertificate, Trusts } from "./trusts.ts";
import type { DataView, ListenerView } from "./view.ts";

export interface DataPathOptions extends ListenersOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: Log;
  readonly remoteAuthorize: RemoteAuthorize;
  readonly fetchCertificate: FetchCertificate;
}

export class DataPath {
  readonly stats = new Stats();
  /** `bun 1.4.5`. */
  readonly engineName: string;
  readonly #options: DataPathOptions;
  readonly #context: Context;
  readonly #facts: Facts;
  readonly #live: LiveSet;
  readonly #listeners: Listeners;
  #preparing: Promise<void> | undefined;
  #snapshot: Snapshot | undefined;
  #columns: Columns = {};

  constructor(options: DataPathOptions) {
    this.#options = options;
    const { engine, clock, log, worker, workers, counts, maxConnections } = options;
    this.engineName = engine.name;
    const { fetchCertificate, remoteAuthorize } = options;
    this.#facts = {
      service: "",
      trusts: new Trusts({ engine, log, now: () => clock.now(), fetchCertificate }),
      policy: undefined,
      draining: false,
    };
    this.#live = new LiveSet(clock);
    this.#context = {
      engine,
      clock,
      deadlines: new Deadlines(clock),
      log,
      stats: this.stats,
      live: this.#live,
      handshakes: new Handshakes({
        clock,
        limit: Math.ceil(handshakeLimit(maxConnections) / workers),
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
    this.#listeners = new Listeners(this.#context, options);
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
    const goesByOthers = this.#listeners.take(snapshot);
    if (judgedOtherwise || goesByOthers || previous?.policy.version !== policy.version) {
      this.#live.rejudge();
    }
    for (const key of Object.keys(previous?.targets ?? {})) {
      if (!snapshot.targets[key]) forgetTarget(this.stats, key);
    }
    await this.#listeners.apply(snapshot, columns);
  }

  /** Tries listeners again that could not be bound. True: all are. */
  async retryFailed(): Promise<boolean> {
    if (this.#snapshot && !this.#facts.draining) {
      await this.#listeners.apply(this.#snapshot, this.#columns);
    }
    return this.listeners().every(({ state }) => state === "listening");
  }

  listeners(): ListenerView[] {
    return this.#listeners.views();
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
      endpoints: this.#listeners.endpoints(nowMs),
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
    this.#listeners.end();
    this.#live.endAll("closed", "the proxy is stopping");
    this.#context.sums.flush();
  }

  #stopAccepting(): void {
    this.#facts.draining = true;
    this.#listeners.stopAccepting();
  }
}
