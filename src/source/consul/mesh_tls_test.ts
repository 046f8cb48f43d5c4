import assert from "node:assert/strict";
import { test } from "node:test";
import type { MeshTlsDirection } from "../../consul/mod.ts";
import { judgeMeshTls } from "./mesh_entry.ts";

const OPEN: MeshTlsDirection = { minVersion: "", maxVersion: "", cipherSuites: [] };

function judge(incoming: Partial<MeshTlsDirection>) {
  return judgeMeshTls({ incoming: { ...OPEN, ...incoming }, outgoing: OPEN });
}

for (
  const [min, max, want] of [
    ["", "", ["TLSv1.2", "TLSv1.3"]],
    ["TLS_AUTO", "TLS_AUTO", ["TLSv1.2", "TLSv1.3"]],
    ["TLSv1_2", "TLSv1_2", ["TLSv1.2", "TLSv1.2"]],
    ["TLSv1_3", "", ["TLSv1.3", "TLSv1.3"]],
    ["TLSv1_0", "", ["TLSv1.2", "TLSv1.3"]],
    ["TLSv1_1", "TLSv1_2", ["TLSv1.2", "TLSv1.2"]],
  ] as const
) {
  test(`judgeMeshTls() takes ${min || "nothing"} to ${max || "nothing"}`, () => {
    const judgement = judge({ minVersion: min, maxVersion: max });
    assert.equal(judgement.kind, "taken");
    if (judgement.kind !== "taken") return;
    const { minVersion, maxVersion } = judgement.incoming;
    assert.deepEqual([minVersion, maxVersion], want);
    assert.equal(judgement.warnings.length, min === "TLSv1_0" || min === "TLSv1_1" ? 1 : 0);
  });
}

for (
  const [name, block, reason] of [
    ["an empty range", { minVersion: "TLSv1_3", maxVersion: "TLSv1_2" }, /allows no version/],
    ["a maximum below 1.2", { maxVersion: "TLSv1_1" }, /TLSMaxVersion TLSv1_1 is below/],
    ["an unknown minimum", { minVersion: "TLSv9" }, /TLSMinVersion "TLSv9" is not known/],
    ["an unknown maximum", { maxVersion: "x" }, /TLSMaxVersion "x" is not known/],
    ["an unknown suite", { cipherSuites: ["TLS_NULL"] }, /CipherSuites names "TLS_NULL"/],
    ["a suite named as an object's own", { cipherSuites: ["constructor"] }, /"constructor"/],
  ] as const
) {
  test(`judgeMeshTls() refuses ${name}`, () => {
    const judgement = judge(block);
    assert.equal(judgement.kind, "refused");
    assert.match(judgement.kind === "refused" ? judgement.reason : "", reason);
  });
}

test("judgeMeshTls() translates suites", () => {
  const judgement = judge({
    cipherSuites: [
      "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
      "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ],
  });
  assert.deepEqual(judgement.kind === "taken" && judgement.incoming.cipherSuites, [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
  ]);
});

test("judgeMeshTls() takes the defaults without a block", () => {
  const judgement = judgeMeshTls(undefined);
  assert.deepEqual(judgement.kind === "taken" && judgement.outgoing, {
    minVersion: "TLSv1.2",
    maxVersion: "TLSv1.3",
    cipherSuites: [],
  });
});
