/**
 * The contract of `tlsFault`: it reports beforehand whatever a handshake would fail for.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { ca, dial, engine, materialOf, SecureServer } from "./kit.ts";

const leaf = ca.intermediate().issueLeaf({ service: "db" });
const other = ca.issueLeaf({ service: "web" });
const NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
for (
  const [name, change, fault] of [
    ["a key of another", { keyPem: other.keyPem }, /^the key is not the certificate's$/],
    ["a chain before its leaf", { certPem: ca.rootPem + leaf.certPem }, /^the key is not the/],
    ["a key that is none", { keyPem: "garbage" }, /^the key cannot be read: ./],
    ["no key", { keyPem: "" }, /^the key cannot be read: ./],
    ["a certificate that is none", { certPem: "garbage" }, /^there is no certificate$/],
    ["no certificate", { certPem: "" }, /^there is no certificate$/],
    ["a torn certificate", { certPem: leaf.certPem.slice(0, 300) }, /^the certificate cannot be/],
    ["a certificate of zeros", { certPem: NO_CERTIFICATE }, /^the certificate cannot be read: ./],
    ["a chain with one of zeros", { certPem: leaf.certPem + NO_CERTIFICATE }, /^the certificate/],
    ["a root that is none", { rootPems: [ca.rootPem, "garbage"] }, /^there is no root$/],
    ["a root of zeros", { rootPems: [ca.rootPem, NO_CERTIFICATE] }, /^the root cannot be read: ./],
  ] as const
) {
  test(`tlsFault() reports ${name}`, () => {
    const { certPem, keyPem, rootPems } = materialOf(leaf);
    assert.match(engine.tlsFault({ certPem, keyPem, rootPems, ...change }) ?? "", fault);
  });
}

/** As OpenSSL writes one of secp256k1; good for nothing else. */
const ODD_KEY = `-----BEGIN PRIVATE KEY-----
MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQgX1KMO3x6NlmxQk+B/r2k
OqoHJgoOdrv02ygst2sOesGhRANCAAQVVfJlAjSexdvM/EE8RX3NDkIqJpc5HZp1
6Y9d7dRXOzKcdTvr/NfRJ+J+8ip2rwtEKyIe4KSyViLLjwEwgTLL
-----END PRIVATE KEY-----
`;

test("tlsFault() reports a curve that no suite of ours signs with", () => {
  const fault = engine.tlsFault({ ...materialOf(leaf), keyPem: ODD_KEY });
  assert.match(fault ?? "", /^the key (?:is of an unsupported kind|cannot be read)/);
});

test("tlsFault() reports no fault in credentials that complete a handshake", async () => {
  for (const keyKind of ["ec-p256", "ec-p384", "ec-p521", "rsa-2048", "ed25519"] as const) {
    const authority = createAuthority({ keyKind });
    const material = materialOf(authority.issueLeaf({ service: "db", keyKind }), {
      roots: [authority],
    });
    assert.equal(engine.tlsFault(material), undefined, keyKind);
    if (keyKind === "ed25519") continue; // clients of Bun do not take it
    await using server = await SecureServer.start(material);
    (await dial(server.port, { material }).side()).write("hello");
    await (await server.side()).received("hello");
  }
});

test("tlsFault() reports no fault in a client without a certificate, or in missing roots", () => {
  assert.equal(engine.tlsFault({ certPem: "", keyPem: "", rootPems: [ca.rootPem] }), undefined);
  assert.equal(engine.tlsFault({ ...materialOf(leaf), rootPems: [] }), undefined);
});
