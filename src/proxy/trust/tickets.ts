/**
 * TLS session tickets of servers, for resumed handshakes. Some servers authorize a caller only in a full
 * handshake (Consul's built-in proxy does, `consul_live` 11.5). So that a denial takes effect there soon, a
 * session is resumed for half a minute after its full handshake at most.
 *
 * @module
 */

import type { Ticket } from "../../net/mod.ts";

/** Tickets kept; the least recently stored goes first. About 2 KB each. */
const MAX_TICKETS = 1_024;
/** From the full handshake to the last resumption of its session. */
export const TICKET_LIFE_MS = 30_000;

export interface KeptTicket {
  readonly ticket: Ticket;
  /** Monotonic time of the full handshake of the session. */
  readonly provenMs: number;
}

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
