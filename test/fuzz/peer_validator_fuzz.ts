/**
 * Verdicts by rules: whatever a peer presents, nothing is thrown, and only a leaf that was issued is
 * ever proven.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createAuthority } from "../kit/certs/authority.ts";
import { createPeerValidator, NO_RULES, type SanMatcher } from "../../src/identity/mod.ts";
import { mintCrlPem } from "../kit/certs/mint_crl.ts";
import { sameBytes } from "../../src/identity/certificate.ts";
import type { FuzzTarget } from "./fuzz.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const ca = createAuthority({ trustDomain: "fuzz.consul", nowMs: NOW_MS, name: "root" });
const middle = ca.intermediate({ overrides: { subject: "middle" } });
const leaves = [ca, middle].map((authority) =>
  authority.issueLeaf({
    service: "web",
    overrides: { dnsNames: ["web.example", "*.wild.example"], serial: Uint8Array.of(7, 8, 9) },
  })
);
const presented = leaves.flatMap(({ chainDer }) => chainDer);
const matchers: readonly SanMatcher[] = [
  { type: "dns", matcher: { kind: "exact", value: "a.wild.example", ignoreCase: false } },
  { type: "ip", matcher: { kind: "exact", value: "::1", ignoreCase: false } },
];
const crlPems = [["root", ca], ["middle", middle]] as const;
const rules = {
  ...NO_RULES,
  matchers,
  crlPems: crlPems.map(([issuer, { key }]) =>
    mintCrlPem({ signer: key.privateKey, issuer, thisUpdateMs: NOW_MS })
  ),
};
const options = { serviceTrustDomains: ["fuzz.consul"], strictSpiffeChain: false };
const validators = [
  createPeerValidator({ kind: "ca", rootPems: [ca.rootPem], rules }, options),
  createPeerValidator(
    { kind: "spiffe", bundles: { "fuzz.consul": [ca.rootPem] }, rules: { ...rules, matchers: [] } },
    options,
  ),
  createPeerValidator(
    { kind: "ca", rootPems: [ca.rootPem], rules: { ...NO_RULES, acceptUntrusted: true } },
    options,
  ),
];

export const target: FuzzTarget = {
  name: "peer_validator",
  corpus: [...leaves.map(({ certDer }) => certDer), ...presented, ca.rootDer],
  run(input, random) {
    const usage = random() < 0.5 ? "client" : "server";
    for (const validator of validators) {
      const peer = { leaf: input, presented, nowMs: NOW_MS, usage } as const;
      const verdict = validator.judge(peer);
      if (verdict.kind === "untrusted" || !verdict.verified) {
        assert.ok(verdict.kind === "untrusted" || verdict.id === undefined);
        continue;
      }
      assert.ok(leaves.some(({ certDer }) => sameBytes(certDer, input)), "no CA issued this leaf");
      assert.equal(verdict.id?.service, "web");
    }
    for (const validator of validators) {
      for (const { certDer } of leaves) {
        const peer = {
          leaf: certDer,
          presented: [input, ...presented],
          nowMs: NOW_MS,
          usage,
        } as const;
        assert.ok(validator.judge(peer).kind === "trusted");
      }
    }
  },
};
