/**
 * Everything that is followed: equal references share one subscription, which ends with its last user.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { OnDemandEvents, OnDemandSecret } from "../on_demand/on_demand.ts";
import type { ExpiryWatch } from "./expiry.ts";
import type { SecretJournal } from "./journal.ts";
import { keyOfRef } from "./key.ts";
import type { ExternalRef, ExternalSource, SharedProviders } from "./shared_providers.ts";
import type { StoredValues } from "./stored.ts";
import { Subscription, type SubscriptionObserver } from "./subscription.ts";

export interface SubscriptionsOptions {
  readonly clock: Clock;
  readonly journal: SecretJournal;
  readonly expiry: ExpiryWatch;
  readonly providers: SharedProviders;
  readonly onChange: () => void;
}

export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #used = new Map<string, { readonly subscription: Subscription; users: number }>();
  #stored: StoredValues | undefined;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  all(): readonly Subscription[] {
    return [...this.#used.values()].map(({ subscription }) => subscription);
  }

  /** What is followed by now, or from within `fn`, begins with the value of an earlier run if it has none. */
  restoring(stored: StoredValues, fn: () => void): void {
    for (const subscription of this.all()) restore(subscription, stored);
    this.#stored = stored;
    try {
      fn();
    } finally {
      this.#stored = undefined;
    }
  }

  /** `configured`: an operator named it, not a client. To be ended with {@link Subscriptions.release}. */
  follow(ref: ExternalRef, options: { readonly configured: boolean }): Subscription {
    const key = keyOfRef(ref);
    let entry = this.#used.get(key);
    if (!entry) this.#used.set(key, entry = { subscription: this.#begin(key, ref), users: 0 });
    entry.users++;
    const { subscription } = entry;
    if (options.configured) subscription.configured = true;
    if (this.#stored) restore(subscription, this.#stored);
    return subscription;
  }

  /** A certificate by name, for {@link OnDemandSecret}'s owner. */
  followName(
    wanted: { readonly name: string; readonly source: ExternalSource },
    options: { readonly configured: boolean; readonly events: OnDemandEvents },
  ): OnDemandSecret {
    // Nobody opens or stays shut for it: who waits has a limit of its own.
    const ref: ExternalRef = { ...wanted, type: "certificate", initialFetchTimeoutMs: 0 };
    const { events } = options;
    const subscription = this.follow(ref, options);
    let released = false;
    const observer: SubscriptionObserver = {
      onValue: () => released ? undefined : events.onValue(),
      onRemoved: () => released ? undefined : events.onRemoved(),
    };
    subscription.observers.add(observer);
    return {
      key: subscription.key,
      get isThere() {
        return subscription.held !== undefined && !subscription.withdrawn;
      },
      get fault() {
        return subscription.fault;
      },
      release: () => {
        if (released) return;
        released = true;
        subscription.observers.delete(observer);
        this.release(subscription);
      },
    };
  }

  release(subscription: Subscription): void {
    const entry = this.#used.get(subscription.key);
    if (!entry || --entry.users > 0) return;
    this.#used.delete(subscription.key);
    this.#options.expiry.forget(subscription);
    subscription.close();
    if (subscription.held) this.#options.onChange();
  }

  #begin(key: string, ref: ExternalRef): Subscription {
    const { clock, journal, expiry, providers, onChange } = this.#options;
    const subscription: Subscription = new Subscription({
      key,
      ref,
      lease: providers.lease(ref.source),
      journal,
      nowMs: clock.monotonic(),
      onChange: () => {
        const value = subscription.held?.value;
        if (value?.type === "certificate") expiry.watch(subscription, value);
        else expiry.forget(subscription);
        onChange();
      },
    });
    return subscription;
  }
}

function restore(subscription: Subscription, stored: StoredValues): void {
  const secret = stored.of(subscription.ref);
  if (secret) subscription.restore(secret);
}
