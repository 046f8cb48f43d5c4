/**
 * Secrets in files for tests: pairs to write, a directory that goes away, and a record of a provider's
 * events with waits that have a deadline.
 *
 * @module
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type {
  CertificateSecret,
  CertificateSpec,
  Secret,
  SecretEvents,
  SecretRef,
  SecretSpec,
} from "../../../src/secrets/mod.ts";
import { createAuthority } from "../certs/certificates.ts";

export interface TestPair {
  readonly certPem: string;
  readonly keyPem: string;
}

const AUTHORITY = createAuthority();

/** A new leaf and key, good now. */
export function newPair(service = "web"): TestPair {
  const { certPem, keyPem } = AUTHORITY.issueLeaf({ service });
  return { certPem, keyPem };
}

export const ROOT_PEM = AUTHORITY.rootPem;

/** A directory of its own, removed in the end. */
export async function temporaryDirectory(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "postern-secrets-"));
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

/** Chain and key in two files. */
export function pairSpec(
  chain: string,
  key: string,
  rest: Partial<CertificateSpec> = {},
): CertificateSpec {
  return {
    type: "certificate",
    chain: { kind: "file", path: chain },
    key: { kind: "file", path: key },
    ...rest,
  };
}

export function refOf(spec: SecretSpec, watch = true): SecretRef {
  return {
    type: spec.type,
    name: "test",
    source: { kind: "spec", spec, watch },
    initialFetchTimeoutMs: 15_000,
  };
}

/** The events of a provider, oldest first. */
export class SecretRecord implements Partial<SecretEvents> {
  readonly secrets: Secret[] = [];
  readonly rejected: string[] = [];
  recovered = 0;
  readonly #waiting = new Set<() => void>();

  onSecret(secret: Secret): void {
    this.secrets.push(secret);
    this.#changed();
  }

  onRejected(reason: string): void {
    this.rejected.push(reason);
    this.#changed();
  }

  onUnreachable(reason: string): void {
    this.onRejected(reason);
  }

  onRecovered(): void {
    this.recovered++;
    this.#changed();
  }

  onRemoved(): void {
    this.onRejected("removed");
  }

  /** The last certificate delivered. */
  get certificate(): CertificateSecret | undefined {
    const last = this.secrets[this.secrets.length - 1];
    return last?.type === "certificate" ? last : undefined;
  }

  /** Resolves once the last secret is this pair's. */
  holds(pair: TestPair, deadlineMs?: number): Promise<void> {
    return this.until(() => this.certificate?.certPem === pair.certPem, deadlineMs);
  }

  /** Resolves once `fact` is true, checked after every event. */
  until(fact: () => boolean, deadlineMs = 30_000): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (!fact()) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        const seen = `${this.secrets.length} secrets, rejected: ${this.rejected.join("; ")}`;
        reject(new Error(`not within ${deadlineMs} ms; seen: ${seen}`));
      }, deadlineMs);
      this.#waiting.add(look);
      look();
    });
  }

  #changed(): void {
    for (const look of [...this.#waiting]) look();
  }
}
