/**
 * `-register` beside servers: keeps an application and its sidecar in the catalog while this process lives,
 * and not much longer. It does for these entries what an agent would do: it checks the application, renews
 * a session that shows that the process lives, and writes entries again that the catalog lost.
 *
 * @module
 */

import { Backoff, messageOf, ProxyError } from "../../../../base/mod.ts";
import type { Engine } from "../../../../net/mod.ts";
import type {
  CommonDeps,
  RegisterRequest,
  RegisterSignals,
  WatchHandle,
  WatchSink,
} from "../../../model/consul.ts";
import type { PollQuestion } from "../../../watch/blocking_query.ts";
import { wakeableSleep } from "../../../watch/pauses.ts";
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
  ownEntriesQuestion,
  readOwnEntries,
  servicesOf,
  strangerIn,
} from "./entries.ts";
import { OwnHealth } from "./own_health.ts";
import { RENEW_MS, SignOfLife } from "./sign_of_life.ts";

/** Longer pauses would let the session end. */
const PAUSE_LIMIT_MS = 8_000;
/** A supervisor may not wait for long. */
const DEREGISTER_MS = 10_000;
const DEREGISTER_PAUSE_MS = 500;

interface KeepDeps extends Omit<CommonDeps, "stats"> {
  readonly engine: Pick<Engine, "dial">;
  watch<T>(question: PollQuestion<T>, sink: WatchSink<T>): WatchHandle;
}

type KeepOptions = RegisterSignals & { readonly deps: KeepDeps };

/**
 * Runs until `signal` aborts, then deregisters both services, not the node. Rejects only before they were
 * registered once, with `agent_forbidden` or `usage`; servers that are away are waited for. Entries with
 * the same ids are taken over; another process that takes them over keeps them until its session ends.
 */
export function keepRegistered(
  catalog: NodeCatalog,
  request: RegisterRequest,
  options: KeepOptions,
): Promise<void> {
  const { signal, handedOver } = options;
  const ended = handedOver ? AbortSignal.any([signal, handedOver]) : signal;
  return new Keeper(catalog, request, { ...options, signal: ended }).run();
}

class Keeper {
  readonly #catalog: NodeCatalog;
  readonly #request: RegisterRequest;
  readonly #options: KeepOptions;
  readonly #ids: readonly string[];
  readonly #life: SignOfLife;
  readonly #backoff: Backoff;
  readonly #health: OwnHealth;
  /** The last status written, by service id. */
  readonly #written = new Map<string, string>();
  #isDue = true;
  /** The catalog seems to differ from the written entries. */
  #isSuspect = false;
  /** Another process has our ids. */
  #hasYielded = false;
  #wasRegistered = false;
  /** An entry may have been written. */
  #hasWritten = false;
  #wake = () => {};
  #hasNews = false;

  constructor(catalog: NodeCatalog, request: RegisterRequest, options: KeepOptions) {
    this.#catalog = catalog;
    this.#request = request;
    this.#options = options;
    this.#ids = [request.applicationId, request.registration.id];
    this.#life = new SignOfLife(catalog, { proxyId: request.registration.id, deps: options.deps });
    const { draining, serving, deps, deps: { random } } = options;
    const onNews = () => this.#signalNews();
    this.#health = new OwnHealth(request, { draining, serving, deps, onNews });
    this.#backoff = new Backoff({ baseMs: 1_000, maxMs: PAUSE_LIMIT_MS, random });
  }

  async run(): Promise<void> {
    const { signal, draining, deps } = this.#options;
    const ended = new AbortController();
    const both = AbortSignal.any([signal, ended.signal]);
    const onNews = () => this.#signalNews();
    draining?.addEventListener("abort", onNews);
    // The first entries have the real status.
    await this.#health.check(both);
    const checking = this.#health.follow(both);
    const watch = deps.watch(ownEntriesQuestion(this.#catalog, this.#ids), {
      onValue: (kept) => this.#compareKept(kept),
      onError: () => {}, // The watch goes on; meanwhile the written entries count as kept.
    });
    try {
      await this.#keep();
    } finally {
      ended.abort();
      watch.stop();
      draining?.removeEventListener("abort", onNews);
      await checking;
      // Entries that were handed over are written by the other process, with a session of its own.
      const isHandedOver = this.#options.handedOver?.aborted === true;
      if (this.#hasWritten && !isHandedOver) await this.#deregisterAll();
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
          // The client is closed: nothing can be taken back.
          this.#hasWritten = false;
          return;
        }
        if (!this.#wasRegistered && (code === "agent_forbidden" || code === "usage")) throw error;
        pauseMs = this.#backoff.next();
        const { id } = this.#request.registration;
        const fields = { id, error: messageOf(error), retry_ms: Math.round(pauseMs) };
        log.warn("catalog entries cannot be kept up", fields);
        // The change is written after the pause.
        this.#hasNews = false;
      }
      if (this.#hasNews) continue;
      const onWake = (wake: () => void) => {
        this.#wake = wake;
        return () => this.#wake = () => {};
      };
      await wakeableSleep(clock, pauseMs, { signal, onWake });
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
    this.#hasWritten = true;
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
      // The check of an earlier process would fail with its session.
      if (!name) await deregister(this.#catalog, { what: { CheckID: lifeCheckId(id) }, signal });
    }
    this.#isDue = false;
    const fields = { node, ids: this.#ids.join(" ") };
    if (!this.#wasRegistered) log.info("registered in the catalog", fields);
    else log.warn("catalog entries written again", fields);
    this.#wasRegistered = true;
  }

  async #writeHealth(ids: readonly string[]): Promise<void> {
    const { signal, deps: { log } } = this.#options;
    const changed = ids.map((id) => ({ id, health: this.#health.of(id) }));
    await register(this.#catalog, {
      what: "write the health of the services",
      body: {
        Address: addressOf(this.#request),
        Checks: changed.map(({ id, health }) => healthCheckOf(id, health)),
      },
      signal,
    });
    for (const { id, health } of changed) {
      this.#written.set(id, health.status);
      log.info("health written to the catalog", { id, ...health });
    }
  }

  async #beat(): Promise<void> {
    try {
      await this.#life.beat(this.#options.signal);
    } catch (error) {
      // The node is gone, and with it all entries.
      if (error instanceof ProxyError && /Missing node/.test(error.message)) this.#isDue = true;
      throw error;
    }
  }

  #compareKept(kept: KeptEntries): void {
    // Entries found before the first write are taken over.
    if (!this.#wasRegistered) return;
    this.#isSuspect ||= this.#hasYielded || this.#stranger(kept) !== undefined ||
      !this.#isKept(kept);
    if (this.#isSuspect) this.#signalNews();
  }

  /** Reads from the leader: the watch may have seen a server that lags behind. */
  async #compare(): Promise<void> {
    const { signal, deps: { log } } = this.#options;
    const kept = await readOwnEntries(this.#catalog, this.#ids, { signal });
    this.#isSuspect = false;
    const stranger = this.#stranger(kept);
    if (stranger !== undefined) {
      if (!this.#hasYielded) {
        const { node } = this.#catalog;
        const fields = { node, ids: this.#ids.join(" "), session: stranger };
        log.error(
          "another process registered the same ids on this node; they are left to it",
          fields,
        );
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

  /** Deregisters our entries, with retries while there is time; those that stay become critical. */
  async #deregisterAll(): Promise<void> {
    const { clock, log } = this.#options.deps;
    const ending = new AbortController();
    const { signal } = ending;
    const timer = clock.after(DEREGISTER_MS, () => ending.abort());
    const ids = this.#ids.join(" ");
    while (!await this.#tryToDeregister(signal)) {
      await wakeableSleep(clock, DEREGISTER_PAUSE_MS, { signal });
      if (!signal.aborted) continue;
      log.warn("catalog entries stay; they become critical when our session ends", { ids });
      return;
    }
    timer.cancel();
  }

  async #tryToDeregister(signal: AbortSignal): Promise<boolean> {
    const { log } = this.#options.deps;
    try {
      const kept = await readOwnEntries(this.#catalog, this.#ids, { signal });
      try {
        // An entry that belongs to another process by now stays.
        if (this.#stranger(kept) === undefined) await this.#deregister(signal);
      } finally {
        // Last, since its end changes every entry that is still there: those become critical.
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

  #signalNews(): void {
    this.#hasNews = true;
    this.#wake();
  }
}
