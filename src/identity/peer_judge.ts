/**
 * Verdicts on peers under one set of rules, remembered: a peer that comes back costs one comparison of
 * its leaf with the one that was proven. A path to a root, once found, holds whatever else the peer
 * presents next time. Strangers, and those let in without proof, are remembered by a digest of
 * everything they showed.
 * A judge is replaced, never edited, when the rules change, and its memory goes with it.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { ChainVerdict, PeerToJudge, TrustedPeer } from "./chain.ts";
import type { Usage } from "./path.ts";
import { PRESENTED_LIMIT_BYTES, presentedBytes } from "./presented.ts";
import type { PeerValidator } from "./rules_validator.ts";

export interface PeerJudgeOptions {
  readonly validator: PeerValidator;
  /** That of the credentials this judge was made from: tickets and connections of older ones are judged anew. */
  readonly generation: number;
  /** Trusted peers remembered; default 4096. */
  readonly trustedLimit?: number;
}

/** Strangers have a memory of their own, so that they cannot push friends out. */
const UNTRUSTED_LIMIT = 256;
/** A refusal may be due to a clock that was wrong for a moment; it is not kept longer. */
const UNTRUSTED_TTL_MS = 10_000;

interface Proven {
  readonly leaf: Uint8Array;
  readonly peer: TrustedPeer;
}

/** A peer that was let in without proof has one, too: what it shows next time may prove it. */
interface Refusal {
  readonly verdict: ChainVerdict;
  readonly judgedAtMs: number;
}

export class PeerJudge {
  readonly generation: number;
  readonly #validator: PeerValidator;
  readonly #trustedLimit: number;
  readonly #trusted = new Map<number, Proven>();
  readonly #untrusted = new Map<string, Refusal>();

  constructor(options: PeerJudgeOptions) {
    this.#validator = options.validator;
    this.generation = options.generation;
    this.#trustedLimit = options.trustedLimit ?? 4096;
  }

  /**
   * The verdict of the validator. `leaf` and `presented` are DER, the latter asked for only where
   * the leaf is new; times as of {@link PeerToJudge}.
   */
  judge(
    leaf: Uint8Array,
    presented: readonly Uint8Array[] | (() => readonly Uint8Array[]),
    options: Pick<PeerToJudge, "usage" | "nowMs" | "presentMs">,
  ): ChainVerdict {
    const { usage, nowMs, presentMs = nowMs } = options;
    const name = nameOf(leaf, usage);
    const known = this.#trusted.get(name);
    const isKnown = known !== undefined && Buffer.compare(known.leaf, leaf) === 0;
    if (isKnown && known.peer.notBeforeMs <= presentMs && nowMs <= known.peer.notAfterMs) {
      remember(this.#trusted, { key: name, value: known, limit: this.#trustedLimit });
      return known.peer;
    }
    const chain: PeerToJudge = {
      leaf,
      presented: typeof presented === "function" ? presented() : presented,
      ...{ nowMs, presentMs, usage },
    };
    // Too much to hash is refused by the first check of all, without being remembered.
    if (presentedBytes(chain) > PRESENTED_LIMIT_BYTES) return this.#validator.judge(chain);
    const key = digestOf(chain);
    const refusal = this.#untrusted.get(key);
    if (refusal && Math.abs(nowMs - refusal.judgedAtMs) < UNTRUSTED_TTL_MS) return refusal.verdict;
    // Outside the window of the path once found another path may still hold.
    const verdict = this.#validator.judge(chain);
    if (verdict.kind === "trusted" && verdict.verified) {
      this.#untrusted.delete(key);
      const value = { leaf, peer: verdict };
      remember(this.#trusted, { key: name, value, limit: this.#trustedLimit });
    } else {
      if (isKnown) this.#trusted.delete(name);
      const value = { verdict, judgedAtMs: nowMs };
      remember(this.#untrusted, { key, value, limit: UNTRUSTED_LIMIT });
    }
    return verdict;
  }

  /** How many verdicts are remembered, for metrics and tests. */
  get remembered(): { readonly trusted: number; readonly untrusted: number } {
    return { trusted: this.#trusted.size, untrusted: this.#untrusted.size };
  }
}

/** Makes an entry the newest and drops the oldest beyond its limit. */
function remember<K, T>(
  map: Map<K, T>,
  entry: { readonly key: K; readonly value: T; readonly limit: number },
): void {
  map.delete(entry.key);
  map.set(entry.key, entry.value);
  if (map.size <= entry.limit) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}

/** The end of the signature, which hardly two leaves share; those that do push each other out. */
function nameOf(leaf: Uint8Array, usage: Usage): number {
  let name = usage === "client" ? 1 : 0;
  for (let at = Math.max(leaf.length - 6, 0); at < leaf.length; at++) {
    name = name * 256 + (leaf[at] ?? 0);
  }
  return name;
}

/** Lengths go in first, so that the same bytes cut elsewhere give another digest. */
function digestOf({ leaf, presented, usage }: PeerToJudge): string {
  let shape = `${usage} ${leaf.length}`;
  for (const der of presented) shape += ` ${der.length}`;
  const hash = createHash("sha256").update(`${shape}\n`).update(leaf);
  for (const der of presented) hash.update(der);
  return hash.digest("base64");
}
