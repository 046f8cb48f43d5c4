/**
 * Everything that is trusted and shown, wherever it comes from: follows what listeners and upstreams
 * need, keeps the last good value of each secret, and says what is there. Runs on the main thread.
 *
 * @module
 */

import {
  type Clock,
  Deadlines,
  type Log,
  messageOf,
  type Random,
  type Stats,
  type Timer,
} from "../../base/mod.ts";
import type { HeldSecrets, SecretEvent, SecretStatus } from "../held.ts";
import { type CertificateAnswer, OnDemand } from "../on_demand/on_demand.ts";
import type { CredentialsPlan, OnDemandPlan } from "../plan.ts";
import { Coalescer } from "./coalesce.ts";
import { deadlineOf, type LivePlan, livePlan, waitingOf, wantedOf } from "./live_plan.ts";
import { ExpiryWatch } from "./expiry.ts";
import { type Credentials, nextHeld } from "./next_held.ts";
import { SecretJournal } from "./journal.ts";
import { fingerprintOf } from "./key.ts";
import { type ProviderFactory, type ProviderLease, SharedProviders } from "./shared_providers.ts";
import { type StoredSecrets, StoredValues } from "./stored.ts";
import { Subscriptions } from "./subscriptions.ts";

export interface SecretStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** One provider per distinct source; the store shares and closes them. */
  readonly providers: ProviderFactory;
  /** Part of a certificate's lifetime that is left when the first warning comes; a third. */
  readonly warnFraction?: number;
}

export interface CertificateRequest {
  /** A key given to `follow`. */
  readonly credentials: string;
  /** What the client asked for; "" where it named nobody. */
  readonly name: string;
  readonly remote: string;
}

export class SecretStore {
  /** {@link held} has changed. Bursts are told of a few times, not each change of them. */
  onChange: (() => void) | undefined;
  readonly #options: SecretStoreOptions;
  readonly #journal: SecretJournal;
  readonly #expiry: ExpiryWatch;
  readonly #providers: SharedProviders;
  readonly #subscriptions: Subscriptions;
  readonly #coalescer: Coalescer;
  readonly #deadlines: Deadlines;
  readonly #credentials = new Map<string, Credentials>();
  /** The lease keeps a source connected while no certificate of it is held. */
  readonly #onDemands = new Map<OnDemand, { readonly lease: ProviderLease; users: number }>();
  #held: HeldSecrets = { certificates: {}, validations: {}, credentials: {} };
  #announced = this.#held;
  /** `held` is to be made anew when somebody looks. */
  #stale = false;
  #unannounced = false;
  #afterChange: (() => void)[] = [];
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: SecretStoreOptions) {
    const { clock, log, stats } = options;
    this.#options = options;
    this.#journal = new SecretJournal({ clock, log, stats });
    this.#expiry = new ExpiryWatch({
      clock,
      log,
      stats,
      warnFraction: options.warnFraction ?? 1 / 3,
    });
    this.#providers = new SharedProviders(options.providers);
    this.#deadlines = new Deadlines(clock);
    this.#coalescer = new Coalescer(clock, () => this.#announce());
    this.#subscriptions = new Subscriptions({
      clock,
      journal: this.#journal,
      expiry: this.#expiry,
      providers: this.#providers,
      onChange: () => this.#changed(),
    });
  }

  /** What is there now: immutable, and the same object until something changes. */
  get held(): HeldSecrets {
    if (this.#stale) this.#refreshHeld();
    return this.#held;
  }

  /**
   * Follows what these need and nothing else. What is needed as before does not notice; where a plan
   * changes, the old one stays in force until the secrets of the new one are there.
   */
  follow(plans: Readonly<Record<string, CredentialsPlan>>): void {
    if (this.#closed) return;
    // What is ready by now counts as what was in force before.
    if (this.#stale) this.#refreshHeld();
    const ended: LivePlan[] = [];
    for (const [key, credentials] of this.#credentials) {
      if (Object.hasOwn(plans, key)) continue;
      this.#credentials.delete(key);
      if (credentials.open) ended.push(credentials.open);
      if (credentials.next) ended.push(credentials.next);
    }
    for (const [key, plan] of Object.entries(plans)) {
      const credentials = this.#credentials.get(key) ?? { open: undefined, next: undefined };
      this.#credentials.set(key, credentials);
      const fingerprint = fingerprintOf(plan);
      const { open, next } = credentials;
      if ((next ?? open)?.fingerprint === fingerprint) continue;
      credentials.next = open?.fingerprint === fingerprint
        ? undefined
        : this.#live(key, plan, open ?? next);
      if (next) ended.push(next);
    }
    // After the new ones began: what both need stays subscribed.
    for (const live of ended) this.#end(live);
    this.#changed();
  }

  /** Like {@link follow}; what has no value yet begins with the one that an earlier run held. */
  restore(plans: Readonly<Record<string, CredentialsPlan>>, stored: StoredSecrets): void {
    if (this.#closed) return;
    const values = new StoredValues(stored, this.#options.clock.now());
    this.#subscriptions.restoring(values, () => {
      this.follow(plans);
      for (const [key, { open, next }] of this.#credentials) {
        const { plan, onDemand } = next ?? open ?? {};
        if (!onDemand || !plan?.onDemand) continue;
        for (const name of values.namesOf(key, plan.onDemand.source)) onDemand.restore(name);
      }
    });
  }

  /**
   * A client asks for a certificate that `held` has not. Answers when the certificate is published, or
   * when it is clear that it will not come; within the plan's `waitMs`.
   */
  certificateWanted(request: CertificateRequest): Promise<CertificateAnswer> {
    const credentials = this.#credentials.get(request.credentials);
    const onDemand = (credentials?.open ?? credentials?.next)?.onDemand;
    if (onDemand) return onDemand.ask(request);
    return Promise.resolve({
      available: false,
      reason: "no certificates are fetched on demand here",
    });
  }

  statuses(): readonly SecretStatus[] {
    return this.#subscriptions.all().map((subscription) => subscription.status());
  }

  /** The last thousand, oldest first. */
  events(): readonly SecretEvent[] {
    return this.#journal.events();
  }

  /** Looks at every source again, at once; `held` has what was found in files when it resolves. */
  async refresh(): Promise<void> {
    for (const onDemand of this.#onDemands.keys()) onDemand.refresh();
    await Promise.all(this.#subscriptions.all().map((followed) => followed.refresh()));
  }

  /** Ends everything that was started; `held` stays as it was. */
  async close(): Promise<void> {
    if (!this.#closed) {
      if (this.#stale) this.#refreshHeld();
      this.#closed = true;
      this.#coalescer.close();
      this.#timer?.cancel();
      for (const { open, next } of this.#credentials.values()) {
        if (open) this.#end(open);
        if (next) this.#end(next);
      }
      this.#credentials.clear();
      this.#expiry.close();
      this.#stale = false;
      for (const fn of this.#afterChange.splice(0)) fn();
    }
    await this.#providers.closed();
  }

  /** `before`: the same listener's last plan, whose on-demand certificates go on where they can. */
  #live(key: string, plan: CredentialsPlan, before: LivePlan | undefined): LivePlan {
    return livePlan(plan, {
      fingerprint: fingerprintOf(plan),
      onDemand: plan.onDemand && this.#onDemand(key, plan.onDemand, before),
      follow: (ref) => this.#subscriptions.follow(ref, { configured: true }),
    });
  }

  #onDemand(key: string, plan: OnDemandPlan, before: LivePlan | undefined): OnDemand | null {
    const { source } = plan;
    const old = before?.onDemand && this.#onDemands.get(before.onDemand);
    if (old && fingerprintOf(before.plan.onDemand?.source) === fingerprintOf(source)) {
      old.users++;
      return before.onDemand;
    }
    // The agent has no certificates by name.
    if (source.kind === "consul") return null;
    const { clock, random, stats } = this.#options;
    const lease = this.#providers.lease(source);
    const onDemand = new OnDemand({
      plan,
      credentials: key,
      clock,
      random,
      stats,
      deadlines: this.#deadlines,
      follow: (name, options) => this.#subscriptions.followName({ name, source }, options),
      onChange: () => this.#changed(),
      afterChange: (fn) => this.#unannounced ? void this.#afterChange.push(fn) : fn(),
    });
    this.#onDemands.set(onDemand, { lease, users: 1 });
    return onDemand;
  }

  #end(live: LivePlan): void {
    for (const { subscription } of wantedOf(live)) {
      if (subscription) this.#subscriptions.release(subscription);
    }
    const { onDemand } = live;
    const shared = onDemand && this.#onDemands.get(onDemand);
    if (!shared || --shared.users > 0) return;
    this.#onDemands.delete(onDemand);
    onDemand.close();
    shared.lease.release();
  }

  #changed(): void {
    if (this.#closed) return;
    this.#stale = true;
    this.#unannounced = true;
    this.#coalescer.changed();
  }

  #announce(): void {
    const { held } = this;
    this.#unannounced = false;
    if (held !== this.#announced) {
      this.#announced = held;
      try {
        this.onChange?.();
      } catch (error) {
        // What follows secrets must not end because somebody could not use them.
        this.#options.log.error("change of secrets not applied", { error: messageOf(error) });
      }
    }
    for (const fn of this.#afterChange.splice(0)) fn();
  }

  #refreshHeld(): void {
    this.#openWhatIsReady();
    this.#held = nextHeld(this.#held, {
      subscriptions: this.#subscriptions.all(),
      credentials: this.#credentials,
      nowMs: this.#options.clock.monotonic(),
    });
    this.#stale = false;
  }

  /** Plans whose secrets have all answered, or were waited for long enough, come into force. */
  #openWhatIsReady(): void {
    const nowMs = this.#options.clock.monotonic();
    let nextMs = Infinity;
    for (const credentials of this.#credentials.values()) {
      const { open, next } = credentials;
      if (!next) continue;
      for (const wanted of wantedOf(next)) {
        if (deadlineOf(wanted) <= nowMs) wanted.subscription?.timeOut();
      }
      const waiting = waitingOf(next, nowMs);
      for (const wanted of waiting) nextMs = Math.min(nextMs, deadlineOf(wanted));
      if (waiting.length > 0) continue;
      credentials.open = next;
      credentials.next = undefined;
      if (next.plan.onDemand) next.onDemand?.update(next.plan.onDemand);
      if (open) this.#end(open);
    }
    this.#timer?.cancel();
    this.#timer = nextMs === Infinity
      ? undefined
      : this.#options.clock.after(nextMs - nowMs, () => this.#changed());
  }
}
