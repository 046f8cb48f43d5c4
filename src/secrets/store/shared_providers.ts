/**
 * One provider per place that secrets come from, as long as somebody needs it.
 *
 * @module
 */

import type { SecretRef, SecretSource } from "../plan.ts";
import type { SecretProvider } from "../secret_provider.ts";
import { keyOfProvider } from "./key.ts";

/** Where secrets come from, the agent aside. */
export type ExternalSource = Exclude<SecretSource, { kind: "consul" }>;
/** A reference to anything but the agent's own. */
export type ExternalRef = SecretRef & { readonly source: ExternalSource };
export type ProviderFactory = (source: ExternalSource) => SecretProvider;

export interface ProviderLease {
  readonly provider: SecretProvider;
  release(): void;
}

export class SharedProviders {
  readonly #create: ProviderFactory;
  readonly #used = new Map<string, { readonly provider: SecretProvider; leases: number }>();
  readonly #closing = new Set<Promise<void>>();

  constructor(create: ProviderFactory) {
    this.#create = create;
  }

  lease(source: ExternalSource): ProviderLease {
    const key = keyOfProvider(source);
    let entry = this.#used.get(key);
    if (!entry) this.#used.set(key, entry = { provider: this.#create(source), leases: 0 });
    const held = entry;
    held.leases++;
    let released = false;
    return {
      provider: held.provider,
      release: () => {
        if (released) return;
        released = true;
        if (--held.leases > 0) return;
        this.#used.delete(key);
        // A provider that cannot close has nothing that anybody could still do about it.
        const done = () => void this.#closing.delete(closing);
        const closing = held.provider.close().then(done, done);
        this.#closing.add(closing);
      },
    };
  }

  /** Resolves when every provider that was let go has closed. */
  async closed(): Promise<void> {
    await Promise.all([...this.#closing]);
  }
}
