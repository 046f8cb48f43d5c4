/**
 * Stands for a provider whose module is still being read.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import type { SecretRef } from "./plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "./secret_provider.ts";

export class LoadingProvider implements SecretProvider {
  readonly #loading: Promise<SecretProvider>;
  #closed = false;

  constructor(load: () => Promise<SecretProvider>) {
    this.#loading = load();
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    let watch: SecretWatch | undefined;
    let closed = false;
    const isWanted = () => !closed && !this.#closed;
    this.#loading.then((provider) => {
      if (isWanted()) watch = provider.watch(ref, events);
    }).catch((error) => {
      const reason = `Cannot follow secret "${ref.name}": ${messageOf(error)}`;
      if (isWanted()) events.onRejected(reason);
    });
    return {
      refresh: () => watch?.refresh(),
      close: () => {
        closed = true;
        watch?.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    // Why it could not be loaded was told to all who asked.
    const provider = await this.#loading.catch(() => undefined);
    await provider?.close();
  }
}
