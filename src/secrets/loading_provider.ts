/**
 * Stands for a provider whose module is still being read: remembers what it is asked to follow.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import type { SecretRef } from "./plan.ts";
import type { SecretEvents, SecretProvider, SecretWatch } from "./secret_provider.ts";

export class LoadingProvider implements SecretProvider {
  readonly #loading: Promise<SecretProvider>;
  readonly #waiting = new Set<() => void>();
  #provider: SecretProvider | undefined;
  #fault: string | undefined;

  constructor(load: () => Promise<SecretProvider>) {
    this.#loading = load();
    this.#loading.then(
      (provider) => this.#loaded(() => void (this.#provider = provider)),
      (error) => this.#loaded(() => void (this.#fault = messageOf(error))),
    );
  }

  watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    let watch: SecretWatch | undefined;
    let closed = false;
    const begin = () => {
      if (closed) return;
      try {
        if (this.#provider) watch = this.#provider.watch(ref, events);
        else events.onRejected(`Cannot follow secret "${ref.name}": ${this.#fault}`);
      } catch (error) {
        events.onRejected(`Cannot follow secret "${ref.name}": ${messageOf(error)}`);
      }
    };
    if (this.#provider) return this.#provider.watch(ref, events);
    if (this.#fault !== undefined) queueMicrotask(begin);
    else this.#waiting.add(begin);
    return {
      refresh: () => watch?.refresh(),
      close: () => {
        closed = true;
        this.#waiting.delete(begin);
        watch?.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#waiting.clear();
    // Why it could not be loaded was told to all who asked.
    const provider = await this.#loading.catch(() => undefined);
    await provider?.close();
  }

  #loaded(note: () => void): void {
    note();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const begin of waiting) begin();
  }
}
