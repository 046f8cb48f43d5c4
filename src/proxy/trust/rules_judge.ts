/**
 * Verifies peers by one version of the rules: at their handshake, and again while their connections are open.
 * An anchor that had expired when it left the rules was not withdrawn (SPIRE prunes expired ones), so open
 * connections that it verified while it was valid stay. New connections cannot use it.
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

/** Anchors kept; above that the one that expired first is dropped, and its connections are closed. */
const RETIRED_LIMIT = 500;

/** Times on the wall clock. */
export interface JudgedAt {
  readonly usage: Usage;
  /** Time of the handshake. */
  readonly nowMs: number;
  /** The current time. */
  readonly presentMs: number;
}

interface Retired extends RetiredAnchor {
  /** An open connection may depend on the anchor. */
  inUse: boolean;
}

/** The certificates of a peer; the rest of the chain is read only when it is needed. */
export interface ShownChain {
  readonly leaf: Uint8Array;
  readonly chain: () => readonly Uint8Array[];
}

export class RulesJudge {
  readonly of: PeerRulesInForce;
  /** The rules name the accepted peers, not only their anchors. */
  readonly namesPeers: boolean;
  readonly #judge: PeerJudge;
  readonly #retired: readonly Retired[];
  /** Verifies open connections with retired anchors; made when first needed. */
  #earlier: PeerJudge | undefined;

  /** All connections of `previous` are judged again. `nowMs`: wall clock. */
  constructor(rules: PeerRulesInForce, previous: RulesJudge | undefined, nowMs: number) {
    const validator = createPeerValidator(rules.validation, rules);
    this.of = rules;
    this.namesPeers = validator.namesPeers;
    this.#judge = new PeerJudge({ validator, generation: rules.generation });
    this.#retired = previous?.retiredBy(rules, nowMs) ?? [];
  }

  /** Retired anchors that are still in use, and those that `validation` retires now. */
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

  /** Verifies the peer of an open connection. `sureMs`: the earliest time that the wall clock can show now. */
  judgeAgain(
    peer: ShownChain,
    { sureMs, ...at }: JudgedAt & { readonly sureMs: number },
  ): ChainVerdict {
    const verdict = this.judge(peer, at);
    if (this.#retired.length === 0 || (verdict.kind === "trusted" && verdict.verified)) {
      return verdict;
    }
    const { of: rules } = this;
    this.#earlier ??= new PeerJudge({
      validator: createPeerValidator(rules.validation, { ...rules, retired: this.#retired }),
      generation: rules.generation,
    });
    const again = this.#earlier.judge(peer.leaf, peer.chain, at);
    if (again.kind !== "trusted") return verdict;
    const anchors = this.#retired.filter(({ rootId, certificate: { notAfterMs } }) =>
      rootId === again.rootId && at.nowMs <= notAfterMs && notAfterMs < sureMs
    );
    if (anchors.length === 0) return verdict;
    for (const anchor of anchors) anchor.inUse = true;
    return again;
  }
}
