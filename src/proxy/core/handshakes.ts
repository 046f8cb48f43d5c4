/**
 * Handshakes under way: a bound of their own, so that callers who have proven nothing never hold the
 * places of connections that carry traffic. Where it is full the oldest goes, for a caller that means to
 * shake hands has done so before; where an address fills more than its share, the oldest of that one.
 * Many who come at once all mean it: nobody goes before a fair time, and accepting waits instead.
 *
 * @module
 */

import { type Clock, type ErrorCode, networkOf } from "../../base/mod.ts";
import type { ConnectionRecord } from "../observe/connection_record.ts";

/** Whose handshake it is; ends it when told to. */
export interface HandshakeOwner {
  readonly record: ConnectionRecord;
  end(code: ErrorCode, reason: string): void;
}

export interface HandshakesOptions {
  readonly clock: Clock;
  /** Under way at once in this data path, and twice as many for the fair time at most. */
  readonly limit: number;
}

/** An address, with its handshakes, oldest first. */
interface Source {
  readonly key: string;
  readonly owners: Set<HandshakeOwner>;
}

/** One that has gone on for longer has had its time. */
const FAIR_MS = 1_000;
/** Of a process; each takes some memory and a descriptor. */
const MOST = 8_192;
const FEWEST = 24;

/** How many handshakes a process of that many connections has under way at once, at most. */
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
  /** Only of addresses that shake hands now, so never more than those are. */
  readonly #sources = new Map<string, Source>();
  /** The last one seen to have more than its share. */
  #greedy: Source | undefined;

  constructor({ clock, limit }: HandshakesOptions) {
    this.#clock = clock;
    this.#limit = limit;
    // Generous, for all sidecars behind a gateway or NAT are one address.
    this.#share = Math.max(1, Math.floor(limit / 2));
    this.#reason = `${limit} handshakes are under way, and others began later`;
  }

  get size(): number {
    return this.#underWay.size;
  }

  /**
   * Always has room; who goes for it is told so at once. True: it is crowded, for all others are as young,
   * so accepting is faster than shaking hands.
   */
  begin(owner: HandshakeOwner): boolean {
    const key = networkOf(owner.record.remote);
    const known = this.#sources.get(key);
    if (known && known.owners.size >= this.#share) this.#greedy = known;
    const crowded = this.size >= this.#limit && !this.#makeRoom();
    // It may have been the last of its address.
    const source = this.#sources.get(key) ?? { key, owners: new Set() };
    this.#sources.set(key, source);
    this.#underWay.set(owner, source);
    source.owners.add(owner);
    return crowded;
  }

  /** False: all, or those that had to go, have begun just now. */
  #makeRoom(): boolean {
    const nowMs = this.#clock.monotonic();
    let calm = true;
    // Two at a time, so that those above the limit become fewer.
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

  /** It is done, whichever way; may be said more than once. */
  over(owner: HandshakeOwner): void {
    const source = this.#underWay.get(owner);
    if (!source) return;
    this.#underWay.delete(owner);
    source.owners.delete(owner);
    if (source.owners.size === 0) this.#sources.delete(source.key);
    if (source === this.#greedy && source.owners.size < this.#share) this.#greedy = undefined;
  }
}
