import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import test from "node:test";
import { ProxyError } from "../../../base/mod.ts";
import { readSigningRequest } from "../../../../test/kit/certs/signing_request.ts";
import { generateKey } from "../../../../test/kit/certs/mint.ts";
import { contextTag, DerReader, derText, parsePem, TAG } from "../../../wire/mod.ts";
import { createAuthority } from "../../../../test/kit/certs/certificates.ts";
import { createSigningRequest, judgeSigned } from "./signing_request.ts";

const NOW_MS = Date.UTC(2026, 10, 21);
const DAY_MS = 24 * 3_600_000;
const authority = createAuthority({ nowMs: NOW_MS - DAY_MS });
const { trustDomain } = authority;
const URI = `spiffe://${trustDomain}/ns/default/dc/dc1/svc/web`;
const roots = {
  activeId: "a",
  trustDomain,
  roots: [{ id: "a", name: "", pem: authority.rootPem, active: true, externalTrustDomain: "" }],
};
const request = createSigningRequest(URI);
const asked = readSigningRequest(request.csrPem);

test("createSigningRequest() has a single URI and a new key, and proves possession of the key", () => {
  assert.deepEqual(asked?.uris, [URI]);
  assert.equal(asked?.altNames.length, 1);
  const own = createPublicKey(request.keyPem).export({ type: "spki", format: "der" });
  assert.deepEqual(asked?.publicKey.export({ type: "spki", format: "der" }), own);
  assert.equal(asked?.publicKey.asymmetricKeyDetails?.namedCurve, "prime256v1");

  const [block] = parsePem(request.csrPem, { what: "request" });
  assert.equal(block?.label, "CERTIFICATE REQUEST");
  const parts = new DerReader(block?.der ?? new Uint8Array()).enter(TAG.sequence, "request");
  const info = parts.read(TAG.sequence, "info");
  parts.read(TAG.sequence, "algorithm");
  const signature = parts.read(TAG.bitString, "signature").body.subarray(1);
  assert.ok(verify("sha256", info.raw, request.keyPem, signature));
  assert.notEqual(createSigningRequest(URI).keyPem, request.keyPem, "each request has its own key");
});

type Certify = Parameters<typeof authority.certify>[1];

function judge(options: Certify, by = authority, key = asked?.publicKey) {
  if (!key) return assert.fail("no key");
  const { certPem } = by.certify(key, {
    nowMs: NOW_MS,
    ...options,
    overrides: { uris: [URI], ...options.overrides },
  });
  return judgeSigned({ certPem, keyPem: request.keyPem, uri: URI, roots, nowMs: NOW_MS });
}

test("judgeSigned() accepts a certificate for the request", () => {
  const leaf = judge({});
  assert.equal(leaf.uri, URI);
  assert.equal(leaf.notAfterMs, NOW_MS - 60_000 + 3 * DAY_MS);
  assert.match(leaf.keyPem, /BEGIN PRIVATE KEY/);
});

test("judgeSigned() accepts a trust domain in any case, and intermediates to a listed root", () => {
  const capital = URI.replace(trustDomain, trustDomain.toUpperCase());
  assert.equal(judge({ overrides: { uris: [capital] } }).uri, URI);
  const below = authority.intermediate();
  assert.match(judge({}, below).certPem, /BEGIN CERTIFICATE[^]*BEGIN CERTIFICATE/);
});

const other = generateKey("ec-p256");
const stranger = createAuthority({ nowMs: NOW_MS - DAY_MS });
for (
  const [what, certify, pattern] of [
    ["another key", () => judge({}, authority, other.publicKey), /key/],
    ["two URIs", () => judge({ overrides: { uris: [URI, `${URI}2`] } }), /URI/],
    ["no URI", () => judge({ overrides: { uris: [] } }), /URI/],
    ["another service", () => judge({ overrides: { uris: [`${URI}2`] } }), /it is for .*web2/],
    [
      "another datacenter",
      () => judge({ overrides: { uris: [URI.replace("dc1", "dc2")] } }),
      /it is for .*dc2/,
    ],
    [
      "another trust domain",
      () => judge({ overrides: { uris: [URI.replace(trustDomain, "example.org")] } }),
      /trust domain/,
    ],
    ["a DNS name", () => judge({ overrides: { dnsNames: ["db"] } }), /not asked for/],
    [
      "an address",
      () => {
        const ip = derText(contextTag(7, "primitive"), "\x7f\x00\x00\x01");
        return judge({ overrides: { altNames: [ip] } });
      },
      /not asked for/,
    ],
    ["a CA certificate", () => judge({ overrides: { ca: {} } }), /CA/],
    ["an expired leaf", () => judge({ nowMs: NOW_MS - 4 * DAY_MS }), /expired/],
    [
      "a leaf below an expired intermediate",
      () => judge({ nowMs: NOW_MS - 4 * DAY_MS }, authority.intermediate()),
      /expired/,
    ],
    [
      "a leaf that is not valid yet",
      () => judge({ nowMs: NOW_MS + DAY_MS }),
      /not valid (before|until)/,
    ],
    ["a leaf of another CA", () => judge({}, stranger), /does not reach a root/],
  ] as const
) {
  test(`judgeSigned() refuses ${what}`, () => {
    assert.throws(certify, (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "agent_reply_invalid");
      assert.match(error.message, pattern);
      assert.doesNotMatch(error.message, /PRIVATE/);
      const isOfTime = /expired|not valid/.test(error.message);
      assert.equal(error.message.includes("is this clock right?"), isOfTime);
      return true;
    });
  });
}

for (
  const [what, certPem] of [
    ["nothing", ""],
    ["no PEM", "hello"],
    ["an endless one", `-----BEGIN CERTIFICATE-----\n${"A".repeat(2 << 20)}`],
    ["a broken one", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ["a key", request.keyPem],
  ] as const
) {
  test(`judgeSigned() refuses ${what}`, () => {
    const { keyPem } = request;
    assert.throws(
      () => judgeSigned({ certPem, keyPem, uri: URI, roots, nowMs: NOW_MS }),
      (error) => error instanceof ProxyError && error.code === "agent_reply_invalid",
    );
  });
}
