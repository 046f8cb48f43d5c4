/**
 * Limits handshakes under way, so that unauthenticated callers never take the places of connections. At the
 * limit the oldest one ends, of an address that has more than its share if there is one. In a burst all are
 * honest: none ends before a fair time, and accepting slows down instead.
 *
 * @module
 */

import { type Clock, type ErrorCode, networkOf } from "../../base/mod.ts";
import type { ConnectionRecord } from "../observe/connection_record.ts";

export interface HandshakeOwner {
  readonly record: ConnectionRecord;
  end(code: ErrorCode, reason: string): void;
}

interface HandshakesOptions {
  readonly clock: Clock;
  /** Handshakes under way in this data path; up to twice as many during the fair time. */
  readonly limit: number;
}

/** The handshakes of one address, oldest first. */
interface Source {
  readonly key: string;
  readonly owners: Set<HandshakeOwner>;
}

/** A handshake may end early only after this. */
const FAIR_MS = 1_000;
/** Limits of a process; each handshake takes some memory and a descriptor. */
const MOST = 8_192;
const FEWEST = 24;

/** The limit of handshakes for a process with that limit of connections. */
export function handshakeLimit(maxConnections: number): number {
  return Math.max(FEWEST, Math.min(MOST, Math.floor(maxConnections / 4)));
}

export class Handshakes {
  readonly #clock: Clock;
  readonly #limit: number;
  readonly #share: number;
  readonly #reason: string;
  /** Oldest first. */
  readonly #underWay = new Map<HandshakeOwner, Source>();
  readonly #sources = new Map<string, Source>();
  /** The last address that exceeded its share. */
  #greedy: Source | undefined;

  constructor({ clock, limit }: HandshakesOptions) {
    this.#clock = clock;
    this.#limit = limit;
    // The share is large, since all sidecars behind a gateway or NAT have one address.
    this.#share = Math.max(1, Math.floor(limit / 2));
    this.#reason = `${limit} handshakes are under way, and others began later`;
  }

  get size(): number {
    return this.#underWay.size;
  }

  /** Ends another handshake if there is no room. True: connections are accepted faster than handshakes finish. */
  begin(owner: HandshakeOwner): boolean {
    const key = networkOf(owner.record.remote);
    const known = this.#sources.get(key);
    if (known && known.owners.size >= this.#share) this.#greedy = known;
    const crowded = this.size >= this.#limit && !this.#makeRoom();
    // Making room may have removed the entry of this address.
    const source = this.#sources.get(key) ?? { key, owners: new Set() };
    this.#sources.set(key, source);
    this.#underWay.set(owner, source);
    source.owners.add(owner);
    return crowded;
  }

  /** False: the handshakes that ended, or would have to, began just now. */
  #makeRoom(): boolean {
    const nowMs = this.#clock.monotonic();
    let calm = true;
    // Two at a time, so that the excess shrinks.
    for (let count = 0; count < 2 && this.size >= this.#limit; count++) {
      const [owner] = this.#greedy?.owners ?? this.#underWay.keys();
      if (!owner) break;
      const isYoung = nowMs - owner.record.openedMs < FAIR_MS;
      if (isYoung) calm = count > 0 && calm;
      if (isYoung && this.size < 2 * this.#limit) break;
      owner.end("handshake_crowded_out", this.#reason);
    }
    return calm;
  }

  /** The handshake ended; may be called more than once. */
  over(owner: HandshakeOwner): void {
    const source = this.#underWay.get(owner);
    if (!source) return;
    this.#underWay.delete(owner);
    source.owners.delete(owner);
    if (source.owners.size === 0) this.#sources.delete(source.key);
    if (source === this.#greedy && source.owners.size < this.#share) this.#greedy = undefined;
  }
}
