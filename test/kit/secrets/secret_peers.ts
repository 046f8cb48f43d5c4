/**
 * Secrets and their sources, for tests of what follows them: a provider whose events the test sets.
 *
 * @module
 */

import { type Log, type LogFields, type LogLevel, silentLog } from "../../../src/base/mod.ts";
import { NO_RULES } from "../../../src/identity/mod.ts";
import type {
  CertificateSecret,
  CredentialsPlan,
  ExternalSource,
  ProviderFactory,
  SdsServer,
  SecretEvents,
  SecretProvider,
  SecretRef,
  SecretSource,
  SecretWatch,
  ValidationSecret,
} from "../../../src/secrets/mod.ts";

const DAY_MS = 86_400_000;

/** A certificate that is not decoded: only its facts count. */
export function certificateSecret(
  serial: string,
  dates: { readonly notBeforeMs?: number; readonly notAfterMs?: number } = {},
): CertificateSecret {
  const notBeforeMs = dates.notBeforeMs ?? Date.UTC(2026, 10, 21);
  return {
    type: "certificate",
    certPem: `certificate ${serial}`,
    keyPem: `key ${serial}`,
    keyKind: "ecdsa",
    dnsNames: ["web.example.com"],
    uris: [],
    serial,
    notBeforeMs,
    notAfterMs: dates.notAfterMs ?? notBeforeMs + 90 * DAY_MS,
  };
}

export function validationSecret(root: string): ValidationSecret {
  return {
    type: "validation",
    validation: { kind: "ca", rootPems: [root], rules: NO_RULES },
  };
}

export function sdsServer(name = "sds_cluster"): SdsServer {
  return {
    name,
    addresses: [{ kind: "unix", path: "/run/sds.sock" }],
    tls: null,
    metadata: {},
    keepAliveMs: 30_000,
    keepAliveTimeoutMs: 5_000,
    backoffBaseMs: 500,
    backoffMaxMs: 30_000,
    node: { id: "web-1", cluster: "web", metadata: {} },
  };
}

export function sdsSource(name?: string): SecretSource {
  return { kind: "sds", server: sdsServer(name), api: "delta" };
}

export function secretRef(
  name: string,
  parts: Partial<SecretRef> = {},
): SecretRef {
  return {
    type: "certificate",
    name,
    source: sdsSource(),
    initialFetchTimeoutMs: 15_000,
    ...parts,
  };
}

export function credentialsPlan(parts: Partial<CredentialsPlan> = {}): CredentialsPlan {
  return {
    certificates: [],
    validation: null,
    requireClientCertificate: true,
    onDemand: null,
    ...parts,
  };
}

/** One secret that is followed; what happens to it is up to the test. */
export interface FakeWatch extends SecretWatch {
  readonly ref: SecretRef;
  readonly events: SecretEvents;
  readonly refreshes: number;
}

/** All providers of a store, behind one door. */
export class FakeProviders {
  /** Sources in the order in which providers were made. */
  readonly created: ExternalSource[] = [];
  closed = 0;
  /** Subscriptions ever begun. */
  begun = 0;
  /** Most at once. */
  peak = 0;
  /** Called with each new watch, before `watch` returns. */
  onWatch: ((watch: FakeWatch) => void) | undefined;
  readonly #open = new Set<FakeWatch>();

  readonly factory: ProviderFactory = (source): SecretProvider => {
    this.created.push(source);
    return {
      watch: (ref, events) => this.#watch(ref, events),
      close: () => {
        this.closed++;
        return Promise.resolve();
      },
    };
  };

  /** Names that are followed now. */
  get names(): readonly string[] {
    return [...this.#open].map(({ ref }) => ref.name);
  }

  get size(): number {
    return this.#open.size;
  }

  /** The only watch of a name. */
  of(name: string): FakeWatch {
    const found = [...this.#open].filter(({ ref }) => ref.name === name);
    const [watch] = found;
    if (!watch || found.length > 1) throw new Error(`${found.length} watches of "${name}"`);
    return watch;
  }

  #watch(ref: SecretRef, events: SecretEvents): SecretWatch {
    let refreshes = 0;
    const watch: FakeWatch = {
      ref,
      events,
      get refreshes() {
        return refreshes;
      },
      refresh: () => void refreshes++,
      close: () => void this.#open.delete(watch),
    };
    this.begun++;
    this.#open.add(watch);
    this.peak = Math.max(this.peak, this.#open.size);
    this.onWatch?.(watch);
    return watch;
  }
}

/** A log that can be looked at. */
export function recordingLog(): Log & {
  readonly lines: readonly { level: LogLevel; message: string; fields: LogFields }[];
} {
  const lines: { level: LogLevel; message: string; fields: LogFields }[] = [];
  const at = (level: LogLevel) => (message: string, fields: LogFields = {}) =>
    void lines.push({ level, message, fields });
  return {
    ...silentLog,
    lines,
    trace: at("trace"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
  };
}
