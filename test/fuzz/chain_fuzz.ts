/**
 * Verdicts: nothing is ever thrown, no damaged leaf is ever trusted, and damaged certificates beside a
 * good leaf change nothing about who it is.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { ChainVerdict } from "../../src/identity/mod.ts";
import { judgeMeshPeer } from "../kit/certs/judge_mesh_peer.ts";
import { sameBytes } from "../../src/identity/certificate.ts";
import { RECORDED_MS, recordedLeaf, recordedRoots } from "../kit/consul/recorded.ts";
import type { FuzzTarget } from "./fuzz.ts";

const LEAVES = ["leaf", "leaf_rotated", "leaf_rsa", "leaf_secondary", "leaf_secondary_rotated"]
  .map(recordedLeaf);
const CERTIFICATES = LEAVES.flatMap(({ leaf, presented }) => [leaf, ...presented]);
const { roots } = recordedRoots("roots_rsa");
const { trustDomain } = recordedRoots("roots");

function judge(leaf: Uint8Array, presented: readonly Uint8Array[]): ChainVerdict {
  return judgeMeshPeer({
    leaf,
    presented,
    roots,
    nowMs: RECORDED_MS,
    usage: "client",
    trustDomains: [trustDomain],
    strictSpiffeChain: false,
  });
}

export const target: FuzzTarget = {
  name: "chain",
  corpus: CERTIFICATES,
  run(input, random) {
    const verdict = judge(input, CERTIFICATES.filter(() => random() < 0.4));
    if (verdict.kind === "trusted") {
      const genuine = LEAVES.find(({ leaf }) => sameBytes(leaf, input));
      assert.ok(genuine, "a leaf that no CA issued was trusted");
      assert.equal(verdict.uri, genuine.uri);
    }
    const real = LEAVES[Math.floor(random() * LEAVES.length)];
    assert.ok(real);
    const beside = judge(real.leaf, [input, ...real.presented, input]);
    assert.ok(beside.kind === "trusted", JSON.stringify(beside));
    assert.equal(beside.uri, real.uri);
    const instead = judge(real.leaf, [input]);
    if (instead.kind === "trusted") assert.equal(instead.uri, real.uri);
  },
};
