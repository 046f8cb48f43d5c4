/**
 * TLS settings for showing each certificate, made when first needed and kept while it is there.
 *
 * @module
 */

import type { Engine, PeerCheck, ServerTls } from "../../net/mod.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import type { ShownCertificate } from "./trust_material.ts";

export class Servers {
  readonly id: string;
  readonly #engine: Engine;
  readonly #common: {
    readonly rootPems: readonly string[];
    readonly peerCheck: PeerCheck;
    readonly direction: TlsDirection;
  };
  readonly #made = new Map<string, ServerTls>();

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

  of({ id, certPem, keyPem }: ShownCertificate): ServerTls {
    let server = this.#made.get(id);
    if (!server) {
      const { rootPems, peerCheck, direction } = this.#common;
      const material = { certPem, keyPem, rootPems, peerCheck, ...versionsOf(direction) };
      server = this.#engine.serverTls(material);
      this.#made.set(id, server);
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
