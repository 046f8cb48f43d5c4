/**
 * TLS settings for presenting each certificate, made when first needed and kept as long as the certificate.
 *
 * @module
 */

import type { Engine, PeerCheck, ServerTls } from "../../net/mod.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import type { ShownCertificate } from "./trust_material.ts";

export class ServerTlsSettings {
  readonly id: string;
  readonly #engine: Engine;
  readonly #common: {
    readonly rootPems: readonly string[];
    readonly peerCheck: PeerCheck;
    readonly direction: TlsDirection;
  };
  /** By certificate, then by protocols. */
  readonly #made = new Map<string, Map<string, ServerTls>>();

  constructor(
    engine: Engine,
    common: {
      readonly id: string;
      readonly rootPems: readonly string[];
      readonly peerCheck: PeerCheck;
      readonly direction: TlsDirection;
    },
  ) {
    this.id = common.id;
    this.#engine = engine;
    this.#common = common;
  }

  of({ id, certPem, keyPem }: ShownCertificate, protocols: readonly string[]): ServerTls {
    let made = this.#made.get(id);
    if (!made) this.#made.set(id, made = new Map());
    const key = protocols.join();
    let server = made.get(key);
    if (!server) {
      const { rootPems, peerCheck, direction } = this.#common;
      const material = { certPem, keyPem, rootPems, peerCheck, protocols };
      server = this.#engine.serverTls({ ...material, ...versionsOf(direction) });
      made.set(key, server);
    }
    return server;
  }

  keepOnly(certificates: readonly ShownCertificate[]): void {
    const ids = new Set(certificates.map(({ id }) => id));
    for (const id of this.#made.keys()) if (!ids.has(id)) this.#made.delete(id);
  }
}

export function versionsOf(direction: TlsDirection): TlsDirection {
  const { minVersion, maxVersion, cipherSuites } = direction;
  return { minVersion, maxVersion, cipherSuites };
}
