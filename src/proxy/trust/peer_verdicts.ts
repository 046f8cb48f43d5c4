/**
 * The certificates that a peer presented, and the time of its handshake. While the connection lives, its
 * certificates are verified as of the handshake, and against the roots that are trusted now.
 *
 * @module
 */

import type { Clock } from "../../base/mod.ts";
import type { ChainVerdict, Usage } from "../../identity/mod.ts";
import type { PresentedPeer } from "../../net/mod.ts";
import type { TrustContext } from "./trust_context.ts";

export class PeerVerdicts {
  readonly #peer: PresentedPeer;
  readonly #clock: Clock;
  /** Time of the handshake, on the wall clock and on the monotonic one. */
  readonly #shown: { readonly usage: Usage; readonly nowMs: number };
  readonly #atMs: number;

  constructor(peer: PresentedPeer, usage: Usage, clock: Clock) {
    this.#peer = peer;
    this.#clock = clock;
    this.#shown = { usage, nowMs: clock.now() };
    this.#atMs = clock.monotonic();
  }

  judge(trust: TrustContext | undefined): ChainVerdict | undefined {
    return trust?.verify(this.#peer, this.#shown);
  }

  /** Verifies the peer of an open connection again. */
  judgeAgain(trust: TrustContext | undefined): ChainVerdict | undefined {
    const sinceMs = this.#clock.monotonic() - this.#atMs;
    return trust?.verify(this.#peer, { ...this.#shown, sinceMs });
  }
}
