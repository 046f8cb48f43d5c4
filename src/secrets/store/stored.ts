/**
 * Secrets that an earlier run held: first values until their sources say something themselves. Only for
 * the very same references, from the same places: anything else waits for its own source.
 *
 * @module
 */

import type { SecretRef, SecretSource } from "../plan.ts";
import type { CertificateSecret, Secret, ValidationSecret } from "../secret.ts";
import { keyOfRef } from "./key.ts";

/** By keys that the earlier run gave. */
export interface StoredSecrets {
  /** What its keys were made with. */
  readonly salt: string;
  readonly certificates: Readonly<
    Record<string, { readonly name: string; readonly value: CertificateSecret }>
  >;
  readonly validations: Readonly<Record<string, ValidationSecret>>;
  /** Certificates of each listener and upstream. */
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

  /** What the earlier run held for that reference, unless it has expired. */
  of(ref: SecretRef): Secret | undefined {
    const { salt, certificates, validations } = this.#stored;
    const key = keyOfRef(ref, salt);
    if (ref.type === "validation") {
      return Object.hasOwn(validations, key) ? validations[key] : undefined;
    }
    const value = Object.hasOwn(certificates, key) ? certificates[key]?.value : undefined;
    return value && value.notAfterMs > this.#nowMs ? value : undefined;
  }

  /** Names of the certificates that these credentials had by name from there, in their order. */
  namesOf(credentials: string, source: SecretSource): readonly string[] {
    const { salt, certificates, credentials: all } = this.#stored;
    const keys = Object.hasOwn(all, credentials) ? all[credentials] ?? [] : [];
    return keys.flatMap((key) => {
      const name = Object.hasOwn(certificates, key) ? certificates[key]?.name : undefined;
      if (name === undefined) return [];
      const ref = { type: "certificate", name, source, initialFetchTimeoutMs: 0 } as const;
      return keyOfRef(ref, salt) === key ? [name] : [];
    });
  }
}
