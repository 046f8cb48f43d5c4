/**
 * All followed secrets: equal references share one subscription, which ends with its last user.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { ExternalRef } from "../model/plan.ts";
import type { ExpiryWatch } from "./expiry.ts";
import type { SecretJournal } from "./journal.ts";
import { keyOfRef } from "./key.ts";
import type { ProviderLease, SharedProviders } from "./providers.ts";
import type { StoredValues } from "./stored.ts";
import { Subscription } from "./subscription.ts";

interface SubscriptionsOptions {
  readonly clock: Clock;
  readonly journal: SecretJournal;
  readonly expiry: ExpiryWatch;
  readonly providers: SharedProviders;
  readonly onChange: () => void;
}

interface Entry {
  readonly subscription: Subscription;
  readonly lease: ProviderLease;
  users: number;
}

export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #entries = new Map<string, Entry>();
  #stored: StoredValues | undefined;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  all(): readonly Subscription[] {
    return [...this.#entries.values()].map(({ subscription }) => subscription);
  }

  /** Subscriptions without a value, those made within `fn` included, get the value of an earlier run. */
  restoring(stored: StoredValues, fn: () => void): void {
    for (const subscription of this.all()) restore(subscription, stored);
    this.#stored = stored;
    try {
      fn();
    } finally {
      this.#stored = undefined;
    }
  }

  /** `configured`: an operator named it, not a client. To be released once. */
  follow(ref: ExternalRef, { configured }: { readonly configured: boolean }): Subscription {
    const key = keyOfRef(ref);
    let entry = this.#entries.get(key);
    if (!entry) this.#entries.set(key, entry = this.#begin(key, ref));
    entry.users++;
    const { subscription } = entry;
    if (configured) subscription.configured = true;
    if (this.#stored) restore(subscription, this.#stored);
    return subscription;
  }

  release(subscription: Subscription): void {
    const entry = this.#entries.get(subscription.key);
    if (!entry || --entry.users > 0) return;
    this.#entries.delete(subscription.key);
    this.#options.expiry.forget(subscription);
    subscription.close();
    entry.lease.release();
    if (subscription.held) this.#options.onChange();
  }

  #begin(key: string, ref: ExternalRef): Entry {
    const { clock, journal, expiry, providers, onChange } = this.#options;
    const lease = providers.lease(ref.source);
    const subscription: Subscription = new Subscription({
      key,
      ref,
      provider: lease.provider,
      journal,
      nowMs: clock.monotonic(),
      onChange: () => {
        const value = subscription.held?.value;
        if (value?.type === "certificate") expiry.watch(subscription, value);
        else expiry.forget(subscription);
        onChange();
      },
    });
    return { subscription, lease, users: 0 };
  }
}

function restore(subscription: Subscription, stored: StoredValues): void {
  const secret = stored.of(subscription.ref);
  if (secret) subscription.restore(secret);
}
