/**
 * `-register` beside servers: an application and its sidecar stand in the catalog for as long as this
 * process lives, and not much longer. Nobody else does anything for such entries, so that what an agent
 * would do is done here: the application is asked whether it answers, a session says that we live, and
 * what the catalog lost is written again.
 *
 * @module
 */

import {
  Backoff,
  type Clock,
  type Log,
  messageOf,
  ProxyError,
  type Random,
} from "../../../../base/mod.ts";
import type { Engine } from "../../../../net/mod.ts";
import type { RegisterRequest, RegisterSignals, WatchHandle, WatchSink } from "../../../agent.ts";
import type { PollQuestion } from "../../../watch/blocking_query.ts";
import { wakeableSleep } from "../../../watch/wakeable_sleep.ts";
import type { NodeCatalog } from "../node_catalog.ts";
import { deregister, ensureNode, register } from "./catalog_writes.ts";
import {
  addressOf,
  healthCheckId,
  healthCheckOf,
  isWhole,
  type KeptEntries,
  lifeCheckId,
  lifeCheckOf,
  servicesOf,
  strangerIn,
} from "./entries.ts";
import { ownEntriesQuestion, readOwnEntries } from "./own_entries.ts";
import { OwnHealth } from "./own_health.ts";
import { RENEW_MS, SignOfLife } from "./sign_of_life.ts";

/** Longer pauses would let the session end. */
const PAUSE_LIMIT_MS = 8_000;
/** Whoever stops us may not wait for long. */
const TAKE_BACK_MS = 10_000;
const TAKE_BACK_PAUSE_MS = 500;

export interface KeepDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly engine: Pick<Engine, "dial">;
  watch<T>(question: PollQuestion<T>, sink: WatchSink<T>): WatchHandle;
}

export interface KeepOptions extends RegisterSignals {
  readonly deps: KeepDeps;
}

/**
 * Runs until `signal` aborts, then deregisters both services, not the node. Rejects only before they
 * stood there once, with `agent_forbidden` or `usage`; servers that are away are waited for. Entries of
 * the same ids are taken over; whoever takes them over from us has them, until its session ends.
 */
export function keepRegistered(
  catalog: NodeCatalog,
  request: RegisterRequest,
  options: KeepOptions,
): Promise<void> {
  return new Keeper(catalog, request, options).run();
}

class Keeper {
  readonly #catalog: NodeCatalog;
  readonly #request: RegisterRequest;
  readonly #options: KeepOptions;
  readonly #ids: readonly string[];
  readonly #life: SignOfLife;
  readonly #backoff: Backoff;
  readonly #health: OwnHealth;
  /** By service id, the status that was written last. */
  readonly #written = new Map<string, string>();
  /** Everything has to be written. */
  #isDue = true;
  /** The catalog seems to have something else than what was written. */
  #isSuspect = false;
  /** Somebody else has our ids. */
  #hasYielded = false;
  #stoodOnce = false;
  /** Something may have been written. */
  #touched = false;
  #wake = () => {};
  #hasNews = false;

  constructor(catalog: NodeCatalog, request: RegisterRequest, options: KeepOptions) {
    this.#catalog = catalog;
    this.#request = request;
    this.#options = options;
    this.#ids = [request.applicationId, request.registration.id];
    this.#life = new SignOfLife(catalog, { proxyId: request.registration.id, deps: options.deps });
    const { draining, serving, deps } = options;
    this.#health = new OwnHealth(request, {
      draining,
      serving,
      deps,
      onNews: () => this.#tell(),
    });
    const { random } = deps;
    this.#backoff = new Backoff({ baseMs: 1_000, maxMs: PAUSE_LIMIT_MS, random });
  }

  async run(): Promise<void> {
    const { signal, draining, deps } = this.#options;
    const ended = new AbortController();
    const both = AbortSignal.any([signal, ended.signal]);
    const onNews = () => this.#tell();
    draining?.addEventListener("abort", onNews);
    // The entries begin with the truth.
    await this.#health.ask(both);
    const checking = this.#health.follow(both);
    const watch = deps.watch(ownEntriesQuestion(this.#catalog, this.#ids), {
      onValue: (kept) => this.#look(kept),
      onError: () => {}, // It is asked again; meanwhile what was written is taken to stand.
    });
    try {
      await this.#keep();
    } finally {
      ended.abort();
      watch.stop();
      draining?.removeEventListener("abort", onNews);
      await checking;
      if (this.#touched) await this.#takeBack();
    }
  }

  async #keep(): Promise<void> {
    const { signal, draining, onLeft, deps: { clock, log } } = this.#options;
    while (!signal.aborted) {
      let pauseMs = RENEW_MS;
      this.#hasNews = false;
      try {
        await this.#round();
        this.#backoff.reset();
        if (draining?.aborted && !this.#hasNews) onLeft?.();
      } catch (error) {
        if (signal.aborted) return;
        const code = error instanceof ProxyError ? error.code : "internal";
        if (code === "closed") {
          // There is nobody left to take it back from.
          this.#touched = false;
          return;
        }
        if (!this.#stoodOnce && (code === "agent_forbidden" || code === "usage")) throw error;
        pauseMs = this.#backoff.next();
        log.warn("catalog entries cannot be kept up", {
          id: this.#request.registration.id,
          error: messageOf(error),
          retry_ms: Math.round(pauseMs),
        });
        // What was news is tried again after the pause.
        this.#hasNews = false;
      }
      if (this.#hasNews) continue;
      await wakeableSleep(clock, pauseMs, { signal, onWake: (wake) => this.#onNews(wake) });
    }
  }

  async #round(): Promise<void> {
    if (this.#isSuspect) await this.#compare();
    if (this.#hasYielded) return;
    if (this.#isDue) return await this.#writeAll();
    const before = this.#life.name;
    await this.#beat();
    if (this.#life.name !== before) return await this.#writeAll();
    const changed = this.#ids.filter((id) => this.#health.of(id).status !== this.#written.get(id));
    if (changed.length > 0) await this.#writeHealth(changed);
  }

  async #writeAll(): Promise<void> {
    const { signal, deps: { log } } = this.#options;
    const { node } = this.#catalog;
    this.#isDue = true;
    await ensureNode(this.#catalog, { address: addressOf(this.#request), signal });
    this.#touched = true;
    await this.#beat();
    const { name } = this.#life;
    for (const service of servicesOf(this.#request)) {
      const id = String(service["ID"]);
      const health = this.#health.of(id);
      await register(this.#catalog, {
        what: `register ${JSON.stringify(id)}`,
        needs: `service:write on ${service["Service"]}, and on what has that id now`,
        body: {
          Address: addressOf(this.#request),
          Service: service,
          Checks: [healthCheckOf(id, health), ...(name ? [lifeCheckOf(id, name)] : [])],
        },
        signal,
      });
      this.#written.set(id, health.status);
      // One of an earlier process would fall with its session.
      if (!name) await deregister(this.#catalog, { what: { CheckID: lifeCheckId(id) }, signal });
    }
    this.#isDue = false;
    if (!this.#stoodOnce) log.info("registered in the catalog", { node, ids: this.#ids.join(" ") });
    else log.warn("catalog entries written again", { node, ids: this.#ids.join(" ") });
    this.#stoodOnce = true;
  }

  async #writeHealth(ids: readonly string[]): Promise<void> {
    const { signal, deps: { log } } = this.#options;
    const told = ids.map((id) => ({ id, health: this.#health.of(id) }));
    await register(this.#catalog, {
      what: "tell how the application is",
      body: {
        Address: addressOf(this.#request),
        Checks: told.map(({ id, health }) => healthCheckOf(id, health)),
      },
      signal,
    });
    for (const { id, health } of told) {
      this.#written.set(id, health.status);
      log.info("health told", { id, ...health });
    }
  }

  async #beat(): Promise<void> {
    try {
      await this.#life.beat(this.#options.signal);
    } catch (error) {
      // The node went, and with it all that was there.
      if (error instanceof ProxyError && /Missing node/.test(error.message)) this.#isDue = true;
      throw error;
    }
  }

  #look(kept: KeptEntries): void {
    // Before the first writing, what stands there is what is taken over.
    if (!this.#stoodOnce) return;
    this.#isSuspect ||= this.#hasYielded || this.#stranger(kept) !== undefined ||
      !this.#isKept(kept);
    if (this.#isSuspect) this.#tell();
  }

  /** What a server says that lags behind proves nothing: the leader is asked. */
  async #compare(): Promise<void> {
    const { signal, deps: { log } } = this.#options;
    const kept = await readOwnEntries(this.#catalog, this.#ids, { signal });
    this.#isSuspect = false;
    const stranger = this.#stranger(kept);
    if (stranger !== undefined) {
      if (!this.#hasYielded) {
        log.error("another process registered the same ids on this node; they are left to it", {
          ...{ node: this.#catalog.node, ids: this.#ids.join(" "), session: stranger },
        });
      }
      this.#hasYielded = true;
      await this.#life.end(signal);
      return;
    }
    if (this.#hasYielded) log.info("the ids are taken back");
    this.#hasYielded = false;
    if (!isWhole(kept, this.#request, this.#life.name)) this.#isDue = true;
    for (const id of this.#ids) {
      this.#written.set(id, kept.checks.get(healthCheckId(id))?.status ?? "");
    }
  }

  #stranger(kept: KeptEntries): string | undefined {
    return strangerIn(kept, { ids: this.#ids, sessions: this.#life.names });
  }

  #isKept(kept: KeptEntries): boolean {
    return isWhole(kept, this.#request, this.#life.name) &&
      this.#ids.every((id) => kept.checks.get(healthCheckId(id))?.status === this.#written.get(id));
  }

  /** Deregisters what is ours, as often as there is time for; what stays is critical by itself. */
  async #takeBack(): Promise<void> {
    const { clock, log } = this.#options.deps;
    const ending = new AbortController();
    const { signal } = ending;
    const timer = clock.after(TAKE_BACK_MS, () => ending.abort());
    const ids = this.#ids.join(" ");
    while (!await this.#tryToTakeBack(signal)) {
      await wakeableSleep(clock, TAKE_BACK_PAUSE_MS, { signal });
      if (!signal.aborted) continue;
      log.warn("catalog entries stay; they become critical when our session ends", { ids });
      return;
    }
    timer.cancel();
  }

  async #tryToTakeBack(signal: AbortSignal): Promise<boolean> {
    const { log } = this.#options.deps;
    try {
      const kept = await readOwnEntries(this.#catalog, this.#ids, { signal });
      try {
        // An entry that belongs to another process by now stays.
        if (this.#stranger(kept) === undefined) await this.#deregister(signal);
      } finally {
        // Its end is one more change of every entry that is still there; those become critical by it.
        await this.#life.end(signal);
      }
      return true;
    } catch (error) {
      log.debug("not deregistered from the catalog", { error: messageOf(error) });
      return false;
    }
  }

  async #deregister(signal: AbortSignal): Promise<void> {
    // The sidecar first: without it no caller comes any more.
    for (const ServiceID of [...this.#ids].reverse()) {
      await deregister(this.#catalog, { what: { ServiceID }, signal });
    }
    this.#options.deps.log.info("deregistered from the catalog", { ids: this.#ids.join(" ") });
  }

  #tell(): void {
    this.#hasNews = true;
    this.#wake();
  }

  #onNews(wake: () => void): () => void {
    this.#wake = wake;
    return () => this.#wake = () => {};
  }
}
