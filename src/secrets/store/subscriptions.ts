/** All followed secrets: equal references share one subscription, which ends with its last user. @module */

import type { Clock } from "../../base/mod.ts";
import type { ExternalRef, SecretRef, SecretSource } from "../model/plan.ts";
import type { CertificateSecret, Secret, ValidationSecret } from "../model/secret.ts";
import type { ExpiryWatch } from "./expiry.ts";
import type { SecretJournal } from "./journal.ts";
import { keyOfRef } from "./key.ts";
import type { SharedProviders } from "./providers.ts";
import { Subscription } from "./subscription.ts";

interface SubscriptionsOptions {
  readonly clock: Clock;
  readonly journal: SecretJournal;
  readonly expiry: ExpiryWatch;
  readonly providers: SharedProviders;
  readonly onChange: () => void;
}

export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #followed = new Map<string, Subscription>();
  #stored: StoredValues | undefined;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  all(): readonly Subscription[] {
    return [...this.#followed.values()];
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
    let subscription = this.#followed.get(key);
    if (!subscription) this.#followed.set(key, subscription = this.#begin(key, ref));
    subscription.users++;
    if (configured) subscription.configured = true;
    if (this.#stored) restore(subscription, this.#stored);
    return subscription;
  }

  release(subscription: Subscription): void {
    if (--subscription.users > 0) return;
    this.#followed.delete(subscription.key);
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

/** Secrets of an earlier run, by the keys of that run. */
export interface StoredSecrets {
  /** The salt of the keys. */
  readonly salt: string;
  readonly certificates: Readonly<
    Record<string, { readonly name: string; readonly value: CertificateSecret }>
  >;
  readonly validations: Readonly<Record<string, ValidationSecret>>;
  /** Keys of the certificates of each listener and upstream. */
  readonly credentials: Readonly<Record<string, readonly string[]>>;
}

export class StoredValues {
  readonly #stored: StoredSecrets;
  readonly #nowMs: number;

  /** `nowMs`: wall clock. */
  constructor(stored: StoredSecrets, nowMs: number) {
    this.#stored = stored;
    this.#nowMs = nowMs;
  }

  /** The stored value of a reference, unless it has expired. */
  of(ref: SecretRef): Secret | undefined {
    const { salt, certificates, validations } = this.#stored;
    const key = keyOfRef(ref, salt);
    if (ref.type === "validation") return own(validations, key);
    const value = own(certificates, key)?.value;
    return value && value.notAfterMs > this.#nowMs ? value : undefined;
  }

  /** Names of the stored certificates of these credentials that came from `source`, in order. */
  namesOf(credentials: string, source: SecretSource): readonly string[] {
    const { salt, certificates, credentials: all } = this.#stored;
    return (own(all, credentials) ?? []).flatMap((key) => {
      const name = own(certificates, key)?.name ?? "";
      const ref = { type: "certificate", name, source, initialFetchTimeoutMs: 0 } as const;
      return name !== "" && keyOfRef(ref, salt) === key ? [name] : [];
    });
  }
}

/** Keys may be any text, `__proto__` included. */
function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
