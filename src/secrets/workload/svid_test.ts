import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import test from "node:test";
import { ProxyError } from "../../base/mod.ts";
import type { CertificateOverrides } from "../../../test/kit/certs/authority.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { type SvidFields, svidOf } from "../../../test/kit/secrets/workload_server.ts";
import { bundlesFor, certificateSpecOf, chooseSvid, validationSpecOf } from "./svid.ts";

const ID = "spiffe://example.org/web";
const CA = createAuthority({ trustDomain: "example.org" });
const NEXT = createAuthority({ trustDomain: "example.org" });
const GOOD = svidOf(CA, ID);
const PLAIN_USAGE = ["digitalSignature"] as const;
/** Overrides that leave the extension out of the leaf. */
const NO_EXTENDED_USAGE = { extendedKeyUsage: undefined } as unknown as CertificateOverrides;

const svid = (fields: SvidFields) => ({ hint: "", ...fields });

function refused(why: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ProxyError && error.code === "credentials_invalid", `${error}`);
    assert.match(error.message, why);
    return true;
  };
}

for (const keyKind of ["ec-p256", "ec-p384", "rsa-2048"] as const) {
  test(`certificateSpecOf() reads SPIRE's SVID with ${keyKind}`, () => {
    assert.ok(certificateSpecOf(svid(svidOf(CA, ID, { keyKind }))).chain);
  });
}

test("certificateSpecOf() accepts an SVID with DNS names, and without extended key usage", () => {
  const leaf = svidOf(CA, ID, { overrides: { dnsNames: ["web.test"], ...NO_EXTENDED_USAGE } });
  assert.ok(certificateSpecOf(svid(leaf)).chain);
});

for (
  const [name, fields, why] of [
    ["garbage as chain", { ...GOOD, chain: new Uint8Array([1, 2, 3]) }, /no list of certificates/],
    ["a chain cut short", { ...GOOD, chain: GOOD.chain.subarray(0, -1) }, /no list of cert/],
    ["a chain with trailing bytes", {
      ...GOOD,
      chain: new Uint8Array([...GOOD.chain, 0]),
    }, /no list of certificates/],
    [
      "a chain of empty sequences",
      { ...GOOD, chain: new Uint8Array([0x30, 0]) },
      /leaf that cannot/,
    ],
    ["a chain of too many certificates", {
      ...GOOD,
      chain: new Uint8Array(Array(12).fill([...GOOD.chain]).flat()),
    }, /more than 11/],
    ["PEM as chain", { ...GOOD, chain: new TextEncoder().encode("-----BEGIN") }, /no list of/],
    ["a chain that begins with the CA", {
      ...GOOD,
      chain: new Uint8Array([...CA.rootDer, ...GOOD.chain]),
    }, /certificate of "spiffe:\/\/example.org"/],
    ["garbage as key", { ...GOOD, key: new Uint8Array([1, 2, 3]) }, /no PKCS#8 key/],
    [
      "the key of another SVID",
      { ...GOOD, key: svidOf(CA, ID).key },
      /does not belong to its leaf/,
    ],
    ["a key in SEC1", {
      ...GOOD,
      key: generateKeyPairSync("ec", {
        namedCurve: "P-256",
        privateKeyEncoding: { type: "sec1", format: "der" },
        publicKeyEncoding: { type: "spki", format: "der" },
      }).privateKey,
    }, /no PKCS#8 key|does not belong/],
    ["the id of another SVID", { ...GOOD, spiffeId: `${ID}2` }, /certificate of "spiffe:.*\/web"/],
    ["the id in another case", { ...GOOD, spiffeId: "spiffe://example.org/WEB" }, /certificate of/],
    ["an id without a path", svidOf(CA, "spiffe://example.org"), /has no path/],
    ["an invalid id", { ...GOOD, spiffeId: "https://example.org/web" }, /does not start/],
    ["an id with a dotted path", { ...GOOD, spiffeId: "spiffe://example.org/../x" }, /dotted/],
    ["two URI names", svidOf(CA, ID, { overrides: { uris: [ID, `${ID}2`] } }), /2 URI alt/],
    ["no URI name", svidOf(CA, ID, { overrides: { uris: [] } }), /0 URI alternative names/],
    ["a CA", svidOf(CA, ID, { overrides: { ca: {} } }), /is a CA's/],
    [
      "a certificate that may sign others",
      svidOf(CA, ID, {
        overrides: { keyUsage: ["digitalSignature", "keyCertSign"] },
      }),
      /key usage of a CA/,
    ],
    [
      "a certificate that may sign lists",
      svidOf(CA, ID, {
        overrides: { keyUsage: ["digitalSignature", "cRLSign"] },
      }),
      /key usage of a CA/,
    ],
    [
      "a certificate that may not sign",
      svidOf(CA, ID, {
        overrides: { keyUsage: ["keyEncipherment"] },
      }),
      /no key usage digitalSignature/,
    ],
    [
      "a certificate for clients only",
      svidOf(CA, ID, {
        overrides: { keyUsage: PLAIN_USAGE, extendedKeyUsage: ["clientAuth"] },
      }),
      /lacks serverAuth/,
    ],
  ] as const
) {
  test(`certificateSpecOf() refuses ${name}`, () => {
    assert.throws(() => certificateSpecOf(svid(fields)), refused(why));
  });
}

test("chooseSvid() finds none if no SVID fits", () => {
  const message = { svids: [svid(GOOD)], federated: new Map(), crls: [] };
  assert.equal(chooseSvid(message, { id: "spiffe://example.org" }), undefined);
  assert.equal(chooseSvid(message, { hint: "x" }), undefined);
  assert.equal(chooseSvid(message, { id: ID, hint: "x" }), undefined);
  assert.equal(chooseSvid(message, {}), message.svids[0]);
});

test("bundlesFor() refuses another bundle of the SVID's own trust domain", () => {
  const own = svid(GOOD);
  const message = (bundle: Uint8Array) => ({
    svids: [own],
    federated: new Map([["example.org", bundle]]),
    crls: [],
  });
  assert.throws(() => bundlesFor(own, message(NEXT.rootDer)), refused(/differs from the SVID's/));
  assert.deepEqual([...bundlesFor(own, message(CA.rootDer)).keys()], ["example.org"]);
});

test("validationSpecOf() refuses a bundle that is no list of certificates", () => {
  for (const bytes of [new Uint8Array([1]), CA.rootDer.subarray(1), new Uint8Array()]) {
    assert.throws(() => validationSpecOf(new Map([["a", bytes]]), []), refused(/bundle of a/));
  }
});
