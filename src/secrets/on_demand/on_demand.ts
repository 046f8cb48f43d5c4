/** The certificates of one listener that are fetched when a client names them. @module */

import type { Clock, Counter, Deadline, Deadlines, Gauge, Random, Stats } from "../../base/mod.ts";
import { judgeName } from "../../identity/mod.ts";
import type { OnDemandPlan } from "../model/plan.ts";
import { NegativeNames, SourceRates } from "./limits.ts";

export interface OnDemandSecret {
  readonly key: string;
  /** There is a value, and its source has not withdrawn it. */
  readonly isThere: boolean;
  /** Why the last attempt failed; "": it did not. */
  readonly fault: string;
}

export interface OnDemandEvents {
  onValue(): void;
  onRemoved(): void;
}

interface OnDemandOptions {
  readonly plan: OnDemandPlan;
  /** The key of the listener's credentials, for stats. */
  readonly credentials: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly stats: Stats;
  readonly deadlines: Deadlines;
  /** `configured`: an operator named it, not a client. Events come later, and none after `release`. */
  readonly follow: (
    name: string,
    options: { readonly configured: boolean; readonly events: OnDemandEvents },
  ) => { readonly secret: OnDemandSecret; release(): void };
  /** {@link OnDemand.keys} has changed. */
  readonly onChange: () => void;
  /** Calls back when all changes so far are published. */
  readonly afterChange: (fn: () => void) => void;
}

export interface CertificateAnswer {
  readonly available: boolean;
  /** "": it is available. */
  readonly reason: string;
}

type OnDemandRefusal =
  | "closed"
  | "name"
  | "negative"
  | "no_name"
  | "pending"
  | "rate"
  | "removed"
  | "timed_out"
  | "waiters";

/** Why there is no certificate, for the client's log line and for stats. */
interface Refusal {
  readonly reason: string;
  readonly refusal: OnDemandRefusal;
}

interface Entry {
  readonly name: string;
  readonly secret: OnDemandSecret;
  release(): void;
  readonly waiters: ((answer: CertificateAnswer) => void)[];
  /** It was published, or belongs to the configuration. */
  isKept: boolean;
  /** Set while there are waiters. */
  deadline: Deadline | undefined;
}

/** Waiting handshakes, for any names. */
const WAITERS_LIMIT = 10_000;
const AVAILABLE: CertificateAnswer = { available: true, reason: "" };
const CLOSING: Refusal = { reason: "the listener is closing", refusal: "closed" };

export class OnDemand {
  #plan: OnDemandPlan;
  readonly #options: OnDemandOptions;
  /** Names of the configuration: never dropped. */
  readonly #pinned = new Map<string, Entry>();
  readonly #pending = new Map<string, Entry>();
  /** The least recently requested one first. A listener requests no certificate again that it has. */
  readonly #held = new Map<string, Entry>();
  readonly #negatives: NegativeNames;
  readonly #rates: SourceRates;
  readonly #requested: Counter;
  readonly #updated: Counter;
  readonly #active: Gauge;
  #waiting = 0;
  #closed = false;

  constructor(options: OnDemandOptions) {
    this.#options = options;
    this.#plan = options.plan;
    this.#negatives = new NegativeNames(options.clock, options.random);
    this.#rates = new SourceRates(options.clock);
    const { stats, credentials } = options;
    const requested = "Server names whose certificate was requested from the source";
    this.#requested = stats.counter("on_demand_cert_requested_total", requested, { credentials });
    const updated = "Certificates that the source delivered, first ones and renewals";
    this.#updated = stats.counter("on_demand_cert_updated_total", updated, { credentials });
    const active = "Certificates fetched on demand that are held in memory now";
    this.#active = stats.gauge("on_demand_cert_active", active, { credentials });
    this.#pin();
  }

  /** Keys of the certificates that are there, the configuration's first. */
  keys(): readonly string[] {
    const entries = [...this.#pinned.values(), ...this.#held.values()];
    return entries.filter(({ secret }) => secret.isThere).map(({ secret }) => secret.key);
  }

  /** Answers within `waitMs`. `name`: the client's SNI; "": none. */
  request(request: { readonly name: string; readonly remote: string }): Promise<CertificateAnswer> {
    const name = request.name === "" ? this.#plan.defaultName : request.name.toLowerCase();
    if (this.#closed) return this.#refuse("closed", CLOSING.reason);
    if (name === undefined) return this.#refuse("no_name", "the client named no host");
    const pinned = this.#pinned.get(name);
    if (!pinned) {
      const fault = judgeName(this.#plan.rules, name);
      if (fault !== undefined) return this.#refuse("name", fault);
    }
    const held = pinned ?? this.#held.get(name);
    if (held?.secret.isThere) {
      if (this.#held.delete(name)) this.#held.set(name, held);
      return this.#available();
    }
    const negative = this.#negatives.get(name);
    if (negative !== undefined) return this.#refuse("negative", negative);
    const entry = pinned ?? this.#pending.get(name);
    return entry ? this.#wait(entry) : this.#fetch(name, request.remote);
  }

  /** A name that clients requested from an earlier run: kept if its stored value is there. */
  restore(name: string): void {
    const isKnown = [this.#pinned, this.#pending, this.#held].some((table) => table.has(name));
    if (isKnown || judgeName(this.#plan.rules, name) !== undefined) return;
    const entry = this.#follow(name, false);
    if (entry.secret.isThere) this.#keep(entry);
    else entry.release();
  }

  /** Other rules for the same source: names that they do not allow are dropped. */
  update(plan: OnDemandPlan): void {
    this.#plan = plan;
    const pinned = new Set(pinnedOf(plan));
    // This is done before any name is dropped, so that a name that changes its table stays subscribed.
    this.#pin();
    for (const table of [this.#pinned, this.#held, this.#pending]) {
      for (const entry of [...table.values()]) {
        const stays = table === this.#pinned
          ? pinned.has(entry.name)
          : !pinned.has(entry.name) && judgeName(plan.rules, entry.name) === undefined;
        if (stays) continue;
        table.delete(entry.name);
        this.#drop(entry, { reason: "the configuration changed", refusal: "name" });
      }
    }
    this.#evict();
    this.#changed();
  }

  refresh(): void {
    this.#negatives.clear();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const table of [this.#pinned, this.#pending, this.#held]) {
      const entries = [...table.values()];
      table.clear();
      for (const entry of entries) this.#drop(entry, CLOSING);
    }
    this.#active.set(0);
  }

  #pin(): void {
    for (const name of pinnedOf(this.#plan)) {
      if (!this.#pinned.has(name)) this.#pinned.set(name, this.#follow(name, true));
    }
    this.#changed();
  }

  #fetch(name: string, remote: string): Promise<CertificateAnswer> {
    const { maxPending, perSourceRate } = this.#plan.rules;
    if (this.#pending.size >= maxPending) {
      return this.#refuse("pending", `${this.#pending.size} other names are waited for already`);
    }
    if (!this.#rates.take(remote, perSourceRate)) {
      return this.#refuse("rate", "too many new names from this address");
    }
    const entry = this.#follow(name, false);
    if (entry.secret.isThere) {
      // Another listener or plan follows it already.
      this.#keep(entry);
      return this.#available();
    }
    this.#pending.set(name, entry);
    return this.#wait(entry);
  }

  #follow(name: string, configured: boolean): Entry {
    this.#requested.add(1);
    const events: OnDemandEvents = {
      onValue: () => this.#arrived(entry),
      onRemoved: () =>
        this.#forget(entry, { reason: "there is no certificate of this name", refusal: "removed" }),
    };
    const followed = this.#options.follow(name, { configured, events });
    const rest = { waiters: [], isKept: configured, deadline: undefined };
    const entry: Entry = { name, ...followed, ...rest };
    return entry;
  }

  #available(): Promise<CertificateAnswer> {
    return new Promise((resolve) => this.#options.afterChange(() => resolve(AVAILABLE)));
  }

  #wait(entry: Entry): Promise<CertificateAnswer> {
    if (this.#waiting >= WAITERS_LIMIT) {
      return this.#refuse("waiters", `${this.#waiting} handshakes wait already`);
    }
    entry.deadline ??= this.#options.deadlines.after(this.#plan.rules.waitMs, () => {
      const reason = entry.secret.fault || "its source did not answer in time";
      this.#forget(entry, { reason, refusal: "timed_out" });
    });
    this.#waiting++;
    return new Promise((resolve) => entry.waiters.push(resolve));
  }

  #arrived(entry: Entry): void {
    this.#updated.add(1);
    this.#negatives.delete(entry.name);
    if (this.#pending.delete(entry.name)) this.#keep(entry);
    const waiters = this.#takeWaiters(entry);
    this.#changed();
    // A waiter finds the certificate in the published state.
    if (waiters.length === 0) return;
    this.#options.afterChange(() => waiters.forEach((resolve) => resolve(AVAILABLE)));
  }

  /** The certificate cannot be had for now. Names of the configuration stay followed. */
  #forget(entry: Entry, why: Refusal): void {
    const { negativeTtlMs: ttlMs } = this.#plan.rules;
    this.#negatives.add(entry.name, { reason: why.reason, ttlMs });
    if (this.#pinned.get(entry.name) === entry) {
      this.#failWaiters(entry, why);
      return this.#changed();
    }
    this.#pending.delete(entry.name);
    this.#held.delete(entry.name);
    this.#drop(entry, why);
  }

  #keep(entry: Entry): void {
    entry.isKept = true;
    this.#held.set(entry.name, entry);
    this.#evict();
    this.#changed();
  }

  /** Only a certificate that came evicts others: names without one evict nothing. */
  #evict(): void {
    for (const [name, entry] of this.#held) {
      if (this.#held.size <= this.#plan.rules.maxEntries) return;
      this.#held.delete(name);
      this.#drop(entry, { reason: "not kept", refusal: "removed" });
    }
  }

  /** The entry is in no table any more. */
  #drop(entry: Entry, why: Refusal): void {
    entry.release();
    this.#failWaiters(entry, why);
    if (entry.isKept) this.#changed();
  }

  #failWaiters(entry: Entry, { reason, refusal }: Refusal): void {
    for (const resolve of this.#takeWaiters(entry)) {
      this.#countRefused(refusal);
      resolve({ available: false, reason });
    }
  }

  #takeWaiters(entry: Entry): readonly ((answer: CertificateAnswer) => void)[] {
    entry.deadline?.cancel();
    entry.deadline = undefined;
    const waiters = entry.waiters.splice(0);
    this.#waiting -= waiters.length;
    return waiters;
  }

  #refuse(refusal: OnDemandRefusal, reason: string): Promise<CertificateAnswer> {
    this.#countRefused(refusal);
    return Promise.resolve({ available: false, reason });
  }

  #countRefused(reason: OnDemandRefusal): void {
    const { stats, credentials } = this.#options;
    const help = "TLS handshakes refused because no certificate could be had, by reason";
    stats.counter("on_demand_refused_total", help, { credentials, reason }).add(1);
  }

  #changed(): void {
    const pinned = [...this.#pinned.values()].filter(({ secret }) => secret.isThere).length;
    this.#active.set(pinned + this.#held.size);
    this.#options.onChange();
  }
}

function pinnedOf({ prefetch, defaultName }: OnDemandPlan): readonly string[] {
  const names = defaultName === undefined ? prefetch : [...prefetch, defaultName];
  return names.map((name) => name.toLowerCase());
}
