import assert from "node:assert/strict";
import test from "node:test";
import { RECORDED_MS, recordedLeaf, recordedRoots } from "../../test/kit/consul/recorded.ts";
import type { ChainVerdict } from "./chain.ts";
import { judgeMeshPeer, type MeshPeer } from "../../test/kit/certs/judge_mesh_peer.ts";

const { trustDomain } = recordedRoots("roots");
const OLD_ROOT = recordedRoots("roots").roots;
const BOTH_ROOTS = recordedRoots("roots_rotated").roots;
const NEW_ROOT = BOTH_ROOTS.filter((root) => !OLD_ROOT.some((old) => old.serial === root.serial));

function judge(name: string, changes: Partial<MeshPeer> = {}): ChainVerdict {
  const { leaf, presented } = recordedLeaf(name);
  return judgeMeshPeer({
    leaf,
    presented,
    roots: OLD_ROOT,
    nowMs: RECORDED_MS,
    usage: "client",
    trustDomains: [trustDomain],
    strictSpiffeChain: false,
    ...changes,
  });
}

for (
  const [name, leaf, roots] of [
    ["before any rotation", "leaf", OLD_ROOT],
    ["of another service", "leaf_db", OLD_ROOT],
    ["still old under both roots", "leaf_before_reissue", BOTH_ROOTS],
    ["rotated, old root alone", "leaf_rotated", OLD_ROOT],
    ["rotated, new root alone", "leaf_rotated", NEW_ROOT],
    ["rotated, both roots", "leaf_rotated", BOTH_ROOTS],
    ["under an RSA root", "leaf_rsa", recordedRoots("roots_rsa").roots],
    ["under an RSA root, seen with the root before it", "leaf_rsa", BOTH_ROOTS],
    ["of a secondary", "leaf_secondary", recordedRoots("roots_secondary").roots],
    ["of a secondary, rotated, out of order", "leaf_secondary_rotated", OLD_ROOT],
    ["of a secondary, rotated, new root alone", "leaf_secondary_rotated", NEW_ROOT],
    [
      "of a secondary, rotated, all roots",
      "leaf_secondary_rotated",
      recordedRoots("roots_secondary_rotated").roots,
    ],
  ] as const
) {
  for (const usage of ["client", "server"] as const) {
    for (const strictSpiffeChain of [false, true]) {
      const strict = strictSpiffeChain ? ", strict" : "";
      test(`a mesh validator trusts the leaf ${name} (${usage}${strict})`, () => {
        const verdict = judge(leaf, { roots, usage, strictSpiffeChain });
        assert.ok(verdict.kind === "trusted", JSON.stringify(verdict));
        assert.equal(verdict.uri, recordedLeaf(leaf).uri);
        assert.equal(verdict.serial, recordedLeaf(leaf).serial);
      });
    }
  }
}

test("a mesh validator accepts the presented certificates in any order", () => {
  const { presented } = recordedLeaf("leaf_secondary_rotated");
  const verdict = judge("leaf_secondary_rotated", { presented: [...presented].reverse() });
  assert.equal(verdict.kind, "trusted");
});

test("a mesh validator accepts the leaf and the root among the presented certificates", () => {
  const { leaf, presented } = recordedLeaf("leaf_rotated");
  const roots = OLD_ROOT.map((root) => root.raw);
  const verdict = judge("leaf_rotated", { presented: [leaf, ...roots, ...presented, leaf] });
  assert.equal(verdict.kind, "trusted");
});

test("a mesh validator names the root as Consul does", () => {
  const verdict = judge("leaf");
  assert.ok(verdict.kind === "trusted");
  assert.deepEqual([verdict.rootId], recordedRoots("roots").ids);
});

test("a mesh validator returns the earliest expiry of the path's certificates", () => {
  const verdict = judge("leaf_rsa", { roots: recordedRoots("roots_rsa").roots });
  assert.ok(verdict.kind === "trusted");
  assert.equal(verdict.notAfterMs, Date.parse("2026-11-21T04:23:50Z"));
});

for (
  const [name, leaf, changes, code] of [
    [
      "roots of another cluster",
      "leaf",
      { roots: recordedRoots("roots_peer_cluster").roots },
      "chain_untrusted",
    ],
    ["no roots at all", "leaf", { roots: [] }, "chain_untrusted"],
    [
      "a rotated leaf without its cross-signed certificate",
      "leaf_rotated",
      { presented: [] },
      "chain_untrusted",
    ],
    // Only the newest cross-signed certificate is carried: a peer with only the first root cannot verify it.
    [
      "the second rotation with the first root alone",
      "leaf_rsa",
      { roots: OLD_ROOT },
      "chain_untrusted",
    ],
    ["another trust domain", "leaf", { trustDomains: ["other.consul"] }, "identity_invalid"],
    [
      "an expired leaf",
      "leaf",
      { nowMs: Date.parse("2026-11-24T03:19:13.001Z") },
      "identity_invalid",
    ],
    [
      "a leaf that is not valid yet",
      "leaf",
      { nowMs: Date.parse("2026-11-21T03:19:12.999Z") },
      "identity_invalid",
    ],
  ] as const
) {
  test(`a mesh validator refuses ${name}`, () => {
    const verdict = judge(leaf, changes);
    assert.ok(verdict.kind === "untrusted", JSON.stringify(verdict));
    assert.equal(verdict.code, code);
  });
}

for (const at of ["2026-11-24T03:19:13Z", "2026-11-21T03:19:13Z"]) {
  test(`a mesh validator counts ${at}, an end of the validity, in`, () => {
    assert.equal(judge("leaf", { nowMs: Date.parse(at) }).kind, "trusted");
  });
}
