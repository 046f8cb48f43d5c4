/** TLS settings for presenting each certificate, and session tickets of servers. @module */

import type { Engine, PeerCheck, ServerTls, Ticket } from "../../net/mod.ts";
import type { TlsDirection } from "../../snapshot/mod.ts";
import type { ShownCertificate } from "./trust_material.ts";

interface ServerTlsOptions {
  readonly id: string;
  readonly engine: Engine;
  readonly rootPems: readonly string[];
  readonly peerCheck: PeerCheck;
  readonly direction: TlsDirection;
}

export class ServerTlsSettings {
  readonly id: string;
  readonly #options: ServerTlsOptions;
  /** By certificate, then by protocols. */
  readonly #made = new Map<string, Map<string, ServerTls>>();

  constructor(options: ServerTlsOptions) {
    this.id = options.id;
    this.#options = options;
  }

  of({ id, certPem, keyPem }: ShownCertificate, protocols: readonly string[]): ServerTls {
    let made = this.#made.get(id);
    if (!made) this.#made.set(id, made = new Map());
    const key = protocols.join();
    let server = made.get(key);
    if (!server) {
      const { engine, rootPems, peerCheck, direction } = this.#options;
      const material = { certPem, keyPem, rootPems, peerCheck, protocols };
      server = engine.serverTls({ ...material, ...direction });
      made.set(key, server);
    }
    return server;
  }

  keepOnly(certificates: readonly ShownCertificate[]): void {
    const ids = new Set(certificates.map(({ id }) => id));
    for (const id of this.#made.keys()) if (!ids.has(id)) this.#made.delete(id);
  }
}

/** Tickets kept; the least recently stored goes first. About 2 KB each. */
const MAX_TICKETS = 1_024;
/** From the full handshake to the last resumption of its session. */
export const TICKET_LIFE_MS = 30_000;

export interface KeptTicket {
  readonly ticket: Ticket;
  /** Monotonic time of the full handshake of the session. */
  readonly provenMs: number;
}

/**
 * Tickets for resumed handshakes. Some servers authorize a caller only in a full handshake (Consul's built-in
 * proxy does, `consul_live` 11.5). So that a denial takes effect there soon, a session is resumed for half a
 * minute after its full handshake at most.
 */
export class Tickets {
  readonly #kept = new Map<string, KeptTicket>();

  /** The newest ticket of a server, unless its full handshake is too long ago. */
  find(key: string, nowMs: number): KeptTicket | undefined {
    const kept = this.#kept.get(key);
    return kept && nowMs - kept.provenMs <= TICKET_LIFE_MS ? kept : undefined;
  }

  keep(key: string, kept: KeptTicket): void {
    this.#kept.delete(key);
    if (this.#kept.size >= MAX_TICKETS) {
      const oldest = this.#kept.keys().next();
      if (!oldest.done) this.#kept.delete(oldest.value);
    }
    this.#kept.set(key, kept);
  }

  drop(key: string): void {
    this.#kept.delete(key);
  }
}
