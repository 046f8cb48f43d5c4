/**
 * Secrets that an earlier run held: first values until their sources answer, for equal references to the
 * same sources only.
 *
 * @module
 */

import type { SecretRef, SecretSource } from "../model/plan.ts";
import type { CertificateSecret, Secret, ValidationSecret } from "../model/secret.ts";
import { keyOfRef } from "./key.ts";

/** By the earlier run's keys. */
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
    return (own(all, credentials) ?? []).filter((key) => {
      const name = own(certificates, key)?.name ?? "";
      return keyOfRef({ type: "certificate", name, source, initialFetchTimeoutMs: 0 }, salt) ===
        key;
    }).flatMap((key) => certificates[key]?.name ?? []);
  }
}

/** Keys may be any text, `__proto__` included. */
function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
