/** Follows the secrets that are needed, keeps the last good values, and publishes them. @module */

import {
  type Clock,
  Deadlines,
  type Log,
  messageOf,
  type Random,
  type ReportEvent,
  type Stats,
  type Timer,
} from "../../base/mod.ts";
import type { CredentialsPlan, OnDemandPlan, ProviderFactory } from "../model/plan.ts";
import type { HeldSecrets, SecretStatus } from "../model/secret.ts";
import { type CertificateAnswer, OnDemand } from "../on_demand/on_demand.ts";
import { Coalescer } from "./coalescer.ts";
import { ExpiryWatch } from "./expiry.ts";
import { SecretJournal } from "./journal.ts";
import { fingerprintOf } from "./key.ts";
import {
  awaitedOf,
  type Credentials,
  deadlineOf,
  type LivePlan,
  livePlan,
  nextHeld,
  secretsOf,
} from "./live_plan.ts";
import { type ProviderLease, SharedProviders } from "./providers.ts";
import { type StoredSecrets, StoredValues, Subscriptions } from "./subscriptions.ts";

export interface SecretStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly report?: ReportEvent;
  /** The store shares and closes the providers. */
  readonly providers: ProviderFactory;
}

export interface CertificateRequest {
  /** A key given to `follow`. */
  readonly credentials: string;
  /** The client's SNI; "": none. */
  readonly name: string;
  readonly remote: string;
}

/** Remaining part of a certificate's lifetime at the first warning. */
const WARN_FRACTION = 1 / 3;

export class SecretStore {
  /** {@link held} has changed. A burst of changes has a few calls. */
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
  /** `#held` must be computed again. */
  #stale = false;
  #unannounced = false;
  #afterChange: (() => void)[] = [];
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: SecretStoreOptions) {
    const { clock } = options;
    this.#options = options;
    this.#journal = new SecretJournal(options);
    this.#expiry = new ExpiryWatch({ ...options, warnFraction: WARN_FRACTION });
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

  /** Immutable, and the same object until something changes. */
  get held(): HeldSecrets {
    if (this.#stale) this.#refreshHeld();
    return this.#held;
  }

  /**
   * Follows the secrets of these plans and no others. An equal plan changes nothing; a changed plan
   * replaces the old one when its secrets are there.
   */
  follow(plans: Readonly<Record<string, CredentialsPlan>>): void {
    if (this.#closed) return;
    // A plan that is ready by now counts as the one in force.
    if (this.#stale) this.#refreshHeld();
    const ended: LivePlan[] = [];
    for (const [key, { open, next }] of this.#credentials) {
      if (Object.hasOwn(plans, key)) continue;
      this.#credentials.delete(key);
      if (open) ended.push(open);
      if (next) ended.push(next);
    }
    for (const [key, plan] of Object.entries(plans)) {
      const credentials = this.#credentials.get(key) ?? { open: undefined, next: undefined };
      this.#credentials.set(key, credentials);
      const fingerprint = fingerprintOf(plan);
      const { open, next } = credentials;
      if ((next ?? open)?.fingerprint === fingerprint) continue;
      const isOpen = open?.fingerprint === fingerprint;
      credentials.next = isOpen ? undefined : livePlan(plan, {
        fingerprint,
        onDemand: plan.onDemand && this.#onDemand(key, plan.onDemand, open ?? next),
        follow: (ref) => this.#subscriptions.follow(ref, { configured: true }),
      });
      if (next) ended.push(next);
    }
    // After the new plans began, so that common secrets stay subscribed.
    for (const live of ended) this.#end(live);
    this.#changed();
  }

  /** Like {@link follow}; secrets without a value begin with that of an earlier run. */
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
   * A client names a certificate that is not held. Answers when the certificate is published, or cannot
   * be had; within the plan's `waitMs`.
   */
  certificateWanted(request: CertificateRequest): Promise<CertificateAnswer> {
    const credentials = this.#credentials.get(request.credentials);
    const onDemand = (credentials?.open ?? credentials?.next)?.onDemand;
    if (onDemand) return onDemand.request(request);
    const reason = "no certificates are fetched on demand here";
    return Promise.resolve({ available: false, reason });
  }

  statuses(): readonly SecretStatus[] {
    return this.#subscriptions.all().map((subscription) => subscription.status());
  }

  /** Reads every source again; when it resolves, `held` has the current content of files. */
  async refresh(): Promise<void> {
    for (const onDemand of this.#onDemands.keys()) onDemand.refresh();
    await Promise.all(this.#subscriptions.all().map((followed) => followed.refresh()));
  }

  /** Ends everything that was started; `held` stays. */
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

  /** `before`: the listener's last plan, whose on-demand certificates stay if the source is equal. */
  #onDemand(key: string, plan: OnDemandPlan, before: LivePlan | undefined): OnDemand | null {
    const { source } = plan;
    const old = before?.onDemand && this.#onDemands.get(before.onDemand);
    if (old && fingerprintOf(before.plan.onDemand?.source) === fingerprintOf(source)) {
      old.users++;
      return before.onDemand;
    }
    // The agent has no certificates by name.
    if (source.kind === "consul") return null;
    const lease = this.#providers.lease(source);
    const onDemand = new OnDemand({
      ...this.#options,
      plan,
      credentials: key,
      deadlines: this.#deadlines,
      follow: (name, { configured, events }) => {
        // No listener waits for it: handshakes have a limit of their own.
        const ref = { type: "certificate", name, source, initialFetchTimeoutMs: 0 } as const;
        const subscription = this.#subscriptions.follow(ref, { configured });
        subscription.observers.add(events);
        return {
          secret: subscription,
          release: () => {
            subscription.observers.delete(events);
            this.#subscriptions.release(subscription);
          },
        };
      },
      onChange: () => this.#changed(),
      afterChange: (fn) => this.#unannounced ? void this.#afterChange.push(fn) : fn(),
    });
    this.#onDemands.set(onDemand, { lease, users: 1 });
    return onDemand;
  }

  #end(live: LivePlan): void {
    for (const { subscription } of secretsOf(live)) {
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
        // Secrets are followed on although a change could not be used.
        this.#options.log.error("change of secrets not applied", { error: messageOf(error) });
      }
    }
    for (const fn of this.#afterChange.splice(0)) fn();
  }

  #refreshHeld(): void {
    this.#openReadyPlans();
    this.#held = nextHeld(this.#held, {
      subscriptions: this.#subscriptions.all(),
      credentials: this.#credentials,
      nowMs: this.#options.clock.monotonic(),
    });
    this.#stale = false;
  }

  /** Plans come into force when all their secrets have answered or timed out. */
  #openReadyPlans(): void {
    const { clock } = this.#options;
    const nowMs = clock.monotonic();
    let nextMs = Infinity;
    for (const credentials of this.#credentials.values()) {
      const { open, next } = credentials;
      if (!next) continue;
      for (const secret of secretsOf(next)) {
        if (deadlineOf(secret) <= nowMs) secret.subscription?.timeOut();
      }
      const awaited = awaitedOf(next, nowMs);
      for (const secret of awaited) nextMs = Math.min(nextMs, deadlineOf(secret));
      if (awaited.length > 0) continue;
      credentials.open = next;
      credentials.next = undefined;
      if (next.plan.onDemand) next.onDemand?.update(next.plan.onDemand);
      if (open) this.#end(open);
    }
    this.#timer?.cancel();
    this.#timer = nextMs === Infinity
      ? undefined
      : clock.after(nextMs - nowMs, () => this.#changed());
  }
}
