/** The credentials in force: the proxy's, and those of single listeners and upstreams. @module */

import { messageOf, ProxyError } from "../../base/mod.ts";
import type { Engine } from "../../net/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { TrustContext } from "./trust_context.ts";
import { trustMaterial } from "./trust_material.ts";

/** Fetches the certificate of a name for a listener. True: a snapshot with it was applied. */
export type FetchCertificate = (request: {
  readonly credentials: string;
  readonly name: string;
  readonly remote: string;
}) => Promise<boolean>;

export interface TrustContextsOptions {
  readonly engine: Engine;
  /** Wall clock. */
  now(): number;
  readonly fetchCertificate: FetchCertificate;
}

/** By key of the credentials; `null` is the key of the proxy's own. */
export type PreparedTrustContexts = ReadonlyMap<string | null, TrustContext>;

export class TrustContexts {
  readonly #options: TrustContextsOptions;
  #byKey: PreparedTrustContexts = new Map();

  constructor(options: TrustContextsOptions) {
    this.#options = options;
  }

  /** `null`: the proxy's own. */
  of(key: string | null): TrustContext | undefined {
    return this.#byKey.get(key);
  }

  /** Why connections with these credentials are refused now; `""`: they are not. */
  fault(key: string | null): string {
    const trust = this.of(key);
    return trust ? trust.fault(this.#options.now()) ?? "" : "no certificate yet";
  }

  /** Makes what {@link take} needs; nothing in force changes. Throws if the credentials are unusable. */
  prepare(snapshot: Snapshot): PreparedTrustContexts {
    const next = new Map<string | null, TrustContext>();
    for (const key of [null, ...Object.keys(snapshot.ownCredentials)]) {
      const trust = this.#trust(snapshot, key);
      if (trust) next.set(key, trust);
    }
    return next;
  }

  /** Puts the credentials in force. True: verdicts on open connections may change. */
  take(next: PreparedTrustContexts): boolean {
    let otherwise = false;
    for (const [key, trust] of next) {
      const previous = this.#byKey.get(key);
      if (trust === previous) continue;
      trust.begin();
      if (!previous || trust.judgesOtherwise(previous)) otherwise = true;
    }
    for (const key of this.#byKey.keys()) if (!next.has(key)) otherwise = true;
    this.#byKey = next;
    return otherwise;
  }

  #trust(snapshot: Snapshot, key: string | null): TrustContext | undefined {
    const previous = this.of(key);
    const material = trustMaterial(snapshot, key);
    if (!material) return undefined;
    if (previous?.material.id === material.id) return previous;
    const { engine, now, fetchCertificate } = this.#options;
    try {
      // Other credentials were checked by the TLS library at their source.
      const mesh = key === null ? snapshot.credentials : null;
      const fault = mesh && engine.tlsFault(mesh);
      if (fault) throw new Error(fault);
      return new TrustContext(material, {
        engine,
        now,
        want: async (name, remote) =>
          key !== null && await fetchCertificate({ credentials: key, name, remote }),
        current: () => this.of(key),
      }, previous);
    } catch (error) {
      const reason = `Cannot use the credentials of ${key ?? "the mesh"}: ${messageOf(error)}`;
      throw new ProxyError("snapshot_invalid", reason, { cause: error });
    }
  }
}
