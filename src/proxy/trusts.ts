/**
 * The credentials in force: those of the proxy itself, and those that listeners and upstreams have of
 * their own. Brought in line with each snapshot; what has not changed stays as it is.
 *
 * @module
 */

import { type Log, messageOf } from "../base/mod.ts";
import type { Engine } from "../net/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import { Trust } from "./trust.ts";
import { trustMaterial } from "./trust_material.ts";

/** Has the certificate of a name fetched for a listener; true: a snapshot with it was applied. */
export type FetchCertificate = (request: {
  readonly credentials: string;
  readonly name: string;
  /** Address of the client that asks for it. */
  readonly remote: string;
}) => Promise<boolean>;

export interface TrustsOptions {
  readonly engine: Engine;
  readonly log: Log;
  /** Wall clock. */
  now(): number;
  readonly fetchCertificate: FetchCertificate;
}

export class Trusts {
  readonly #options: TrustsOptions;
  #byKey: ReadonlyMap<string | null, Trust> = new Map();

  constructor(options: TrustsOptions) {
    this.#options = options;
  }

  /** `null`: the proxy's own. */
  of(key: string | null): Trust | undefined {
    return this.#byKey.get(key);
  }

  /** Why nothing that goes by these credentials is let through now; `""`: it is. */
  fault(key: string | null): string {
    const trust = this.of(key);
    return trust ? trust.fault(this.#options.now()) ?? "" : "no certificate yet";
  }

  /** True: open connections may be judged otherwise now. */
  update(snapshot: Snapshot): boolean {
    const next = new Map<string | null, Trust>();
    let otherwise = false;
    for (const key of [null, ...Object.keys(snapshot.ownCredentials)]) {
      const previous = this.#byKey.get(key);
      const trust = this.#trust(snapshot, key, previous);
      if (trust) next.set(key, trust);
      if (previous !== trust && (!previous || !trust || trust.judgesOtherwise(previous))) {
        otherwise = true;
      }
    }
    for (const key of this.#byKey.keys()) if (!next.has(key)) otherwise = true;
    this.#byKey = next;
    return otherwise;
  }

  #trust(snapshot: Snapshot, key: string | null, previous: Trust | undefined): Trust | undefined {
    const material = trustMaterial(snapshot, key);
    if (!material) return undefined;
    if (previous?.material.id === material.id) return previous;
    const { engine, log, now, fetchCertificate } = this.#options;
    try {
      return new Trust(material, {
        engine,
        now,
        want: (name, remote) =>
          key === null
            ? Promise.resolve(false)
            : fetchCertificate({ credentials: key, name, remote }),
        current: () => this.of(key),
      }, previous);
    } catch (error) {
      // Checked before it was published, so a defect: what is in force was good.
      log.error("credentials not used, the old ones stay", {
        credentials: key ?? "mesh",
        error: messageOf(error),
      });
      return previous;
    }
  }
}
