/**
 * Judges peers by one version of the rules: new ones, and again those whose connections are open. An
 * anchor that had expired when it left the rules was taken away from nobody (SPIRE prunes those): whom it
 * vouched for while it was valid stays. For new connections it is gone.
 *
 * @module
 */

import {
  type ChainVerdict,
  createPeerValidator,
  PeerJudge,
  type RetiredAnchor,
  retiredAnchors,
  type Usage,
} from "../../identity/mod.ts";
import type { PeerRulesInForce } from "./trust_material.ts";

/** Anchors remembered; of more the one that expired first goes, and what rests on it is closed. */
const RETIRED_LIMIT = 500;

/** Wall clock. */
export interface JudgedAt {
  readonly usage: Usage;
  /** Of the handshake. */
  readonly nowMs: number;
  /** Of now. */
  readonly presentMs: number;
}

interface Retired extends RetiredAnchor {
  /** A connection rests on it that is open, as far as is known. */
  inUse: boolean;
}

/** What a peer showed; the rest of its chain is asked for only where it is needed. */
export interface ShownChain {
  readonly leaf: Uint8Array;
  readonly chain: () => readonly Uint8Array[];
}

export class RulesJudge {
  readonly of: PeerRulesInForce;
  /** The rules themselves say which peers are meant, not only who vouches for them. */
  readonly namesPeers: boolean;
  readonly #judge: PeerJudge;
  readonly #retired: readonly Retired[];
  /** Of those who came before; made when first needed. */
  #earlier: PeerJudge | undefined;

  /** `previous`: by the rules before, of whose connections all are judged again; `nowMs`: wall clock. */
  constructor(rules: PeerRulesInForce, previous: RulesJudge | undefined, nowMs: number) {
    const validator = createPeerValidator(rules.validation, rules);
    this.of = rules;
    this.namesPeers = validator.namesPeers;
    this.#judge = new PeerJudge({ validator, generation: rules.generation });
    this.#retired = previous?.retiredBy(rules, nowMs) ?? [];
  }

  /** What was retired and is still needed, and what is now. */
  retiredBy({ validation }: PeerRulesInForce, nowMs: number): readonly Retired[] {
    const all = [
      ...this.#retired.filter(({ inUse }) => inUse),
      ...retiredAnchors(this.of.validation, validation, nowMs),
    ];
    return all.sort((a, b) => b.certificate.notAfterMs - a.certificate.notAfterMs)
      .slice(0, RETIRED_LIMIT)
      .map((anchor) => ({ ...anchor, inUse: false }));
  }

  judge(peer: ShownChain, at: JudgedAt): ChainVerdict {
    return this.#judge.judge(peer.leaf, peer.chain, at);
  }

  /** Of a connection that is open: `sureMs` is the least that the wall clock can show now. */
  judgeAgain(
    peer: ShownChain,
    { sureMs, ...at }: JudgedAt & { readonly sureMs: number },
  ): ChainVerdict {
    const verdict = this.judge(peer, at);
    if (this.#retired.length === 0 || (verdict.kind === "trusted" && verdict.verified)) {
      return verdict;
    }
    const again = this.#judgeEarlier.judge(peer.leaf, peer.chain, at);
    if (again.kind !== "trusted") return verdict;
    const anchors = this.#retired.filter(({ rootId, certificate: { notAfterMs } }) =>
      rootId === again.rootId && at.nowMs <= notAfterMs && notAfterMs < sureMs
    );
    if (anchors.length === 0) return verdict;
    for (const anchor of anchors) anchor.inUse = true;
    return again;
  }

  get #judgeEarlier(): PeerJudge {
    const { of: rules } = this;
    this.#earlier ??= new PeerJudge({
      validator: createPeerValidator(rules.validation, { ...rules, retired: this.#retired }),
      generation: rules.generation,
    });
    return this.#earlier;
  }
}
