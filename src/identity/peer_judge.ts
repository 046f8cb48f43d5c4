/** Caches verdicts on peers under one set of rules: a known peer costs one comparison of its leaf. @module */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  type ChainVerdict,
  type PeerToJudge,
  PRESENTED_LIMIT_BYTES,
  presentedBytes,
  type TrustedPeer,
} from "./chain.ts";
import type { Usage } from "./oids.ts";
import type { PeerValidator } from "./rules_validator.ts";

export interface PeerJudgeOptions {
  readonly validator: PeerValidator;
  /** The credentials' generation: tickets and connections of older ones are judged again. */
  readonly generation: number;
  /** Trusted peers remembered; default 4096. */
  readonly trustedLimit?: number;
}

/** Untrusted peers have a cache of their own, so that they cannot evict trusted ones. */
const UNTRUSTED_LIMIT = 256;
/** A wrong clock may have caused a refusal, so it is not kept longer. */
const UNTRUSTED_TTL_MS = 10_000;

/** A found path to a root holds, whatever else the peer presents next time. */
interface Proven {
  readonly leaf: Uint8Array;
  readonly peer: TrustedPeer;
}

/** A cached refusal, or an accepted unverified peer, which may be verified by its next chain. */
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
   * The verdict of the validator. `leaf` and `presented` are DER; a `presented` function is called only
   * for a new leaf. Times are as in {@link PeerToJudge}.
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
      remember(this.#trusted, name, known, this.#trustedLimit);
      return known.peer;
    }
    const chain: PeerToJudge = {
      leaf,
      presented: typeof presented === "function" ? presented() : presented,
      nowMs,
      presentMs,
      usage,
    };
    // Too many bytes to hash are refused by the validator's first check, and not remembered.
    if (presentedBytes(chain) > PRESENTED_LIMIT_BYTES) return this.#validator.judge(chain);
    const key = digestOf(chain);
    const refusal = this.#untrusted.get(key);
    if (refusal && Math.abs(nowMs - refusal.judgedAtMs) < UNTRUSTED_TTL_MS) return refusal.verdict;
    // Outside the validity of the known path, another path may hold.
    const verdict = this.#validator.judge(chain);
    if (verdict.kind === "trusted" && verdict.verified) {
      this.#untrusted.delete(key);
      remember(this.#trusted, name, { leaf, peer: verdict }, this.#trustedLimit);
    } else {
      if (isKnown) this.#trusted.delete(name);
      remember(this.#untrusted, key, { verdict, judgedAtMs: nowMs }, UNTRUSTED_LIMIT);
    }
    return verdict;
  }

  get remembered(): { readonly trusted: number; readonly untrusted: number } {
    return { trusted: this.#trusted.size, untrusted: this.#untrusted.size };
  }
}

/** Makes an entry the newest and drops the oldest beyond its limit. */
function remember<K, T>(map: Map<K, T>, key: K, value: T, limit: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= limit) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}

/** The end of the signature. Two leaves hardly share it; if they do, they evict each other. */
function nameOf(leaf: Uint8Array, usage: Usage): number {
  let name = usage === "client" ? 1 : 0;
  for (let at = Math.max(leaf.length - 6, 0); at < leaf.length; at++) {
    name = name * 256 + (leaf[at] ?? 0);
  }
  return name;
}

/** Lengths are hashed first, so that the same bytes with other boundaries have another digest. */
function digestOf({ leaf, presented, usage }: PeerToJudge): string {
  let shape = `${usage} ${leaf.length}`;
  for (const der of presented) shape += ` ${der.length}`;
  const hash = createHash("sha256").update(`${shape}\n`).update(leaf);
  for (const der of presented) hash.update(der);
  return hash.digest("base64");
}
