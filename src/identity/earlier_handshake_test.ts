import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certs/authority.ts";
import { createPeerValidator, NO_RULES, PeerJudge, type Validation } from "./mod.ts";
import { keyIdOf, mintCertificate } from "../../test/kit/certs/mint.ts";
import { mintCrlPem } from "../../test/kit/certs/mint_crl.ts";
import { formatPem } from "../wire/mod.ts";

const HOUR_MS = 3_600_000;
const HANDSHAKE_MS = Date.UTC(2027, 0, 1, 12);
const NOW_MS = HANDSHAKE_MS + 24 * HOUR_MS;
const TRUST_DOMAIN = "11111111-2222-3333-4444-555555555555.consul";

const ca = createAuthority({
  trustDomain: TRUST_DOMAIN,
  nowMs: HANDSHAKE_MS - HOUR_MS,
  name: "root",
});
const leafUntil = (notAfterMs: number) =>
  ca.issueLeaf({ service: "api", nowMs: HANDSHAKE_MS, overrides: { notAfterMs } });
const lasting = leafUntil(NOW_MS + HOUR_MS);
const expired = leafUntil(NOW_MS - HOUR_MS);

/** The same CA with a new certificate, valid from that time on. */
const renewedAt = (notBeforeMs: number) =>
  formatPem(
    "CERTIFICATE",
    mintCertificate({
      publicKey: ca.key.publicKey,
      signer: ca.key.privateKey,
      subject: "root",
      issuer: "root",
      notBeforeMs,
      notAfterMs: NOW_MS + 24 * HOUR_MS,
      uris: [`spiffe://${TRUST_DOMAIN}`],
      ca: {},
      keyUsage: ["keyCertSign", "cRLSign"],
      subjectKeyId: keyIdOf(ca.key.publicKey),
    }),
  );
const listOf = (fromMs: number, untilMs: number, ...revoked: readonly string[]) =>
  mintCrlPem({
    signer: ca.key.privateKey,
    issuer: "root",
    thisUpdateMs: fromMs,
    nextUpdateMs: untilMs,
    revoked,
  });
const byCa = (rootPem: string, ...crlPems: readonly string[]): Validation => ({
  kind: "ca",
  rootPems: [rootPem],
  rules: { ...NO_RULES, crlPems },
});
const serialOf = (pem: string) => new X509Certificate(pem).serialNumber;

for (
  const [what, leaf, validation, want] of [
    ["a leaf that expired since", expired, byCa(ca.rootPem), "trusted"],
    [
      "a list that was made since",
      lasting,
      byCa(ca.rootPem, listOf(NOW_MS, NOW_MS + HOUR_MS)),
      "trusted",
    ],
    [
      "a list that was made since, and a leaf that expired since",
      expired,
      byCa(ca.rootPem, listOf(NOW_MS, NOW_MS + HOUR_MS)),
      "trusted",
    ],
    [
      "a list that was made since and revokes it",
      lasting,
      byCa(ca.rootPem, listOf(NOW_MS, NOW_MS + HOUR_MS, serialOf(lasting.certPem))),
      "untrusted",
    ],
    [
      "a list of the future",
      lasting,
      byCa(ca.rootPem, listOf(NOW_MS + 1_000, NOW_MS + HOUR_MS)),
      "untrusted",
    ],
    [
      "a list that had expired",
      lasting,
      byCa(ca.rootPem, listOf(HANDSHAKE_MS - 2 * HOUR_MS, HANDSHAKE_MS - HOUR_MS)),
      "untrusted",
    ],
    ["a CA certified again since", lasting, byCa(renewedAt(NOW_MS)), "trusted"],
    ["a CA of the future", lasting, byCa(renewedAt(NOW_MS + 1_000)), "untrusted"],
    [
      "a mesh's root certified again since",
      lasting,
      { kind: "mesh", rootPems: [renewedAt(NOW_MS)], trustDomains: [TRUST_DOMAIN] },
      "trusted",
    ],
    [
      "a bundle's CA certified again since",
      lasting,
      { kind: "spiffe", bundles: { [TRUST_DOMAIN]: [renewedAt(NOW_MS)] }, rules: NO_RULES },
      "trusted",
    ],
  ] as const satisfies readonly (readonly [string, typeof lasting, Validation, string])[]
) {
  test(`PeerJudge.judge() of a handshake a day ago, by ${what}: ${want}`, () => {
    const validator = createPeerValidator(validation, {
      serviceTrustDomains: [TRUST_DOMAIN],
      strictSpiffeChain: false,
    });
    const judge = new PeerJudge({ validator, generation: 1 });
    const options = { usage: "client", nowMs: HANDSHAKE_MS, presentMs: NOW_MS } as const;
    // The second verdict comes from the cache.
    for (let i = 0; i < 2; i++) {
      const verdict = judge.judge(leaf.certDer, leaf.chainDer, options);
      assert.equal(verdict.kind, want, verdict.kind === "untrusted" ? verdict.reason : "");
    }
  });
}
