/**
 * What a peer showed in its handshake, and when. Its certificates are held against that moment for as long
 * as the connection lives; whom we trust is that of now.
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
  /** The moment on the wall clock, and on the monotonic one. */
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

  /** Of a connection that is open. */
  judgeAgain(trust: TrustContext | undefined): ChainVerdict | undefined {
    const sinceMs = this.#clock.monotonic() - this.#atMs;
    return trust?.verify(this.#peer, { ...this.#shown, sinceMs });
  }
}
