/**
 * Tickets of servers met, for short handshakes. Some servers authorize a caller only in a full handshake
 * (Consul's built-in proxy does, `consul_live` 11.5): so that a denial reaches even those soon, one full
 * handshake pays for half a minute of short ones, and no longer.
 *
 * @module
 */

import type { Ticket } from "../../net/mod.ts";

/** Tickets kept; the least recently stored goes first. About 2 KB each. */
const MAX_TICKETS = 1_024;
/** From the full handshake to the last short one that rests on it. */
export const TICKET_LIFE_MS = 30_000;

export interface KeptTicket {
  readonly ticket: Ticket;
  /** Monotonic time of the full handshake that it stems from. */
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
