/**
 * Certificates fetched when a client asks for their name, for one listener: whom to ask for what, how
 * many to keep, whom to refuse. At any time it follows at most `maxEntries` names that are there,
 * `maxPending` that are waited for, and those that the configuration names itself.
 *
 * A listener that has a certificate does not ask for it again, so "asked for" means asked for here: the
 * name that has been here longest goes first, and comes back when the next client wants it.
 *
 * @module
 */

import type { Clock, Deadline, Deadlines, Random, Stats } from "../../base/mod.ts";
import { judgeName } from "../../identity/mod.ts";
import { NegativeNames, SourceRates } from "./limits.ts";
import { type OnDemandRefusal, OnDemandStats } from "./on_demand_stats.ts";
import type { OnDemandPlan } from "../plan.ts";

/** A name followed at its source. */
export interface OnDemandSecret {
  readonly key: string;
  /** Whether there is a value, and its source has not taken it back. */
  readonly isThere: boolean;
  /** Why the last try failed; "" where it did not. */
  readonly fault: string;
  release(): void;
}

export interface OnDemandEvents {
  onValue(): void;
  onRemoved(): void;
}

export interface OnDemandOptions {
  readonly plan: OnDemandPlan;
  /** For stats: whose certificates these are. */
  readonly credentials: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly stats: Stats;
  readonly deadlines: Deadlines;
  /** `configured`: an operator named it, not a client. Events come later. */
  readonly follow: (
    name: string,
    options: { readonly configured: boolean; readonly events: OnDemandEvents },
  ) => OnDemandSecret;
  /** {@link OnDemand.keys} has changed. */
  readonly onChange: () => void;
  /** Calls back when everybody has been told of all changes so far. */
  readonly afterChange: (fn: () => void) => void;
}

export interface CertificateAnswer {
  readonly available: boolean;
  /** "" where it is available. */
  readonly reason: string;
}

/** Why somebody gets no certificate: for the client's log line, and for stats. */
interface Refusal {
  readonly reason: string;
  readonly refusal: OnDemandRefusal;
}

interface Entry {
  readonly name: string;
  readonly secret: OnDemandSecret;
  readonly waiters: ((answer: CertificateAnswer) => void)[];
  /** It came once, or belongs to the configuration: others may have seen it. */
  isKept: boolean;
  /** Set while somebody waits. */
  deadline: Deadline | undefined;
}

/** Handshakes that wait at once, for whatever names. */
const WAITERS_LIMIT = 10_000;
const AVAILABLE: CertificateAnswer = { available: true, reason: "" };

export class OnDemand {
  #plan: OnDemandPlan;
  readonly #options: OnDemandOptions;
  /** Named by the configuration: never dropped. */
  readonly #pinned = new Map<string, Entry>();
  readonly #pending = new Map<string, Entry>();
  /** The one asked for longest ago first. */
  readonly #held = new Map<string, Entry>();
  readonly #negatives: NegativeNames;
  readonly #rates: SourceRates;
  readonly #stats: OnDemandStats;
  #waiting = 0;
  #closed = false;

  constructor(options: OnDemandOptions) {
    this.#options = options;
    this.#plan = options.plan;
    this.#negatives = new NegativeNames(options.clock, options.random);
    this.#rates = new SourceRates(options.clock);
    this.#stats = new OnDemandStats(options.stats, options.credentials);
    this.#pin();
  }

  /** Of the certificates that are there, those of the configuration first. */
  keys(): readonly string[] {
    const entries = [...this.#pinned.values(), ...this.#held.values()];
    return entries.filter(({ secret }) => secret.isThere).map(({ secret }) => secret.key);
  }

  /** Answers within `waitMs`. `name`: what the client said, "" where it named nobody. */
  ask(request: { readonly name: string; readonly remote: string }): Promise<CertificateAnswer> {
    const name = request.name === "" ? this.#plan.defaultName : request.name.toLowerCase();
    if (this.#closed) return this.#refuse("closed", "the listener is closing");
    if (name === undefined) return this.#refuse("no_name", "the client named no host");
    const pinned = this.#pinned.get(name);
    if (!pinned) {
      const fault = judgeName(this.#plan.rules, name);
      if (fault !== undefined) return this.#refuse("name", fault);
    }
    const held = pinned ?? this.#held.get(name);
    if (held?.secret.isThere) return this.#touch(held);
    const negative = this.#negatives.get(name);
    if (negative !== undefined) return this.#refuse("negative", negative);
    const entry = pinned ?? this.#pending.get(name);
    return entry ? this.#wait(entry) : this.#fetch(name, request.remote);
  }

  /** A name that clients asked an earlier run for: kept if what that held is there again. */
  restore(name: string): void {
    const isKnown = [this.#pinned, this.#pending, this.#held].some((table) => table.has(name));
    if (isKnown || judgeName(this.#plan.rules, name) !== undefined) return;
    const entry = this.#follow(name, false);
    if (entry.secret.isThere) this.#keep(entry);
    else entry.secret.release();
  }

  /** Other rules, of the same source: what they do not allow any more goes. */
  update(plan: OnDemandPlan): void {
    this.#plan = plan;
    const pinned = new Set(pinnedOf(plan));
    // Before anything is dropped: a name that moves from one table to the other stays subscribed.
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

  /** Asks again for what was not there. */
  refresh(): void {
    this.#negatives.clear();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const table of [this.#pinned, this.#pending, this.#held]) {
      const entries = [...table.values()];
      table.clear();
      for (const entry of entries) {
        this.#drop(entry, { reason: "the listener is closing", refusal: "closed" });
      }
    }
    this.#stats.close();
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
      // Somebody else follows it already.
      this.#keep(entry);
      return new Promise((resolve) => this.#options.afterChange(() => resolve(AVAILABLE)));
    }
    this.#pending.set(name, entry);
    return this.#wait(entry);
  }

  #follow(name: string, configured: boolean): Entry {
    this.#stats.requested();
    const events: OnDemandEvents = {
      onValue: () => this.#arrived(entry),
      onRemoved: () => this.#removed(entry),
    };
    const secret = this.#options.follow(name, { configured, events });
    const entry: Entry = { name, secret, waiters: [], isKept: configured, deadline: undefined };
    return entry;
  }

  #wait(entry: Entry): Promise<CertificateAnswer> {
    if (this.#waiting >= WAITERS_LIMIT) {
      return this.#refuse("waiters", `${this.#waiting} handshakes wait already`);
    }
    entry.deadline ??= this.#options.deadlines.after(
      this.#plan.rules.waitMs,
      () => this.#timedOut(entry),
    );
    this.#waiting++;
    return new Promise((resolve) => entry.waiters.push(resolve));
  }

  #arrived(entry: Entry): void {
    this.#stats.updated();
    this.#negatives.delete(entry.name);
    if (this.#pending.delete(entry.name)) this.#keep(entry);
    const waiters = this.#takeWaiters(entry);
    this.#changed();
    // Whoever waits looks into what is published, and finds it there.
    if (waiters.length === 0) return;
    this.#options.afterChange(() => waiters.forEach((resolve) => resolve(AVAILABLE)));
  }

  #removed(entry: Entry): void {
    this.#forget(entry, { reason: "there is no certificate of this name", refusal: "removed" });
  }

  #timedOut(entry: Entry): void {
    const reason = entry.secret.fault || "its source did not answer in time";
    this.#forget(entry, { reason, refusal: "timed_out" });
  }

  /** It cannot be had for now. Those of the configuration are still followed: they may come. */
  #forget(entry: Entry, why: Refusal): void {
    this.#negatives.add(entry.name, {
      reason: why.reason,
      ttlMs: this.#plan.rules.negativeTtlMs,
    });
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

  /** Only what has come makes others go: names that nobody has push nothing out. */
  #evict(): void {
    for (const [name, entry] of this.#held) {
      if (this.#held.size <= this.#plan.rules.maxEntries) return;
      this.#held.delete(name);
      this.#drop(entry, { reason: "not kept", refusal: "removed" });
    }
  }

  #touch(entry: Entry): Promise<CertificateAnswer> {
    if (this.#held.delete(entry.name)) this.#held.set(entry.name, entry);
    return new Promise((resolve) => this.#options.afterChange(() => resolve(AVAILABLE)));
  }

  /** The entry is in no table any more. */
  #drop(entry: Entry, why: Refusal): void {
    entry.secret.release();
    this.#failWaiters(entry, why);
    if (entry.isKept) this.#changed();
  }

  #failWaiters(entry: Entry, why: Refusal): void {
    for (const resolve of this.#takeWaiters(entry)) {
      this.#stats.refused(why.refusal);
      resolve({ available: false, reason: why.reason });
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
    this.#stats.refused(refusal);
    return Promise.resolve({ available: false, reason });
  }

  #changed(): void {
    let pinned = 0;
    for (const { secret } of this.#pinned.values()) if (secret.isThere) pinned++;
    this.#stats.active(pinned + this.#held.size);
    this.#options.onChange();
  }
}

function pinnedOf({ prefetch, defaultName }: OnDemandPlan): readonly string[] {
  const names = defaultName === undefined ? prefetch : [...prefetch, defaultName];
  return names.map((name) => name.toLowerCase());
}
