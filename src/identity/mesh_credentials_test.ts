import assert from "node:assert/strict";
import { createPrivateKey } from "node:crypto";
import test from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { RECORDED_MS, recordedLeaf, recordedRoots } from "../../test/kit/consul/recorded.ts";
import { ProxyError } from "../base/mod.ts";
import { formatPem, parsePem } from "../wire/mod.ts";
import { isSignedBy } from "./signature.ts";
import { type CredentialsInput, validateCredentials } from "./credentials.ts";
import { parseCertificate } from "./certificate.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const CA = createAuthority({ nowMs: NOW_MS });
const WEB = CA.issueLeaf({ service: "web" });
const DB = CA.issueLeaf({ service: "db" });
const INPUT: CredentialsInput = {
  certPem: WEB.certPem,
  keyPem: WEB.keyPem,
  rootPems: [CA.rootPem],
  trustDomains: [TRUST_DOMAIN],
  nowMs: NOW_MS,
};

test("validateCredentials() returns the fields of the snapshot's part", () => {
  const valid = validateCredentials(INPUT);
  assert.equal(valid.uri, WEB.uri);
  assert.equal(valid.id.service, "web");
  assert.equal(valid.notAfterMs, WEB.notAfterMs);
  assert.equal(valid.notBeforeMs, WEB.notBeforeMs);
  assert.deepEqual(valid.rootPems, [CA.rootPem]);
  assert.equal(valid.certPem, WEB.certPem);
  assert.match(valid.keyPem, /^-----BEGIN PRIVATE KEY-----/);
});

for (
  const [leaf, roots] of [
    ["leaf", "roots"],
    ["leaf_before_reissue", "roots_rotated"],
    ["leaf_rotated", "roots_rotated"],
    ["leaf_rsa", "roots_rsa"],
    ["leaf_secondary", "roots_secondary"],
    ["leaf_secondary_rotated", "roots_secondary_rotated"],
  ] as const
) {
  test(`validateCredentials() accepts ${leaf} of a real Consul`, () => {
    const { certPem, keyPem, uri, serial, presented } = recordedLeaf(leaf);
    const { pems, trustDomain } = recordedRoots(roots);
    const valid = validateCredentials({
      certPem,
      keyPem,
      rootPems: pems,
      trustDomains: [trustDomain.toUpperCase()],
      nowMs: RECORDED_MS,
    });
    assert.equal(valid.uri, uri);
    assert.equal(valid.serial, serial);
    assert.equal(valid.rootPems.length, pems.length);
    const chain = certificatesOf(valid.certPem);
    assert.equal(chain.length, presented.length + 1);
    chain.slice(1).forEach((issuer, index) => {
      const child = chain[index];
      assert.ok(
        child && isSignedBy(child, issuer),
        `certificate ${index} is not signed by the next`,
      );
    });
  });
}

test("validateCredentials() puts the leaf first, whatever the order", () => {
  const issued = CA.intermediate().issueLeaf({ service: "web" });
  const blocks = parsePem(issued.certPem, { what: "leaf" }).reverse();
  const certPem = blocks.map((block) => formatPem(block.label, block.der)).join("text\n");
  const valid = validateCredentials({ ...INPUT, certPem, keyPem: issued.keyPem });
  assert.equal(valid.certPem, issued.certPem);
});

test("validateCredentials() reads keys in PKCS#8, and beside EC PARAMETERS", () => {
  const pkcs8 = createPrivateKey(WEB.keyPem).export({ type: "pkcs8", format: "pem" }).toString();
  const parameters = formatPem("EC PARAMETERS", Uint8Array.of(6, 1, 42));
  for (const keyPem of [pkcs8, parameters + WEB.keyPem]) {
    assert.equal(validateCredentials({ ...INPUT, keyPem }).uri, WEB.uri);
  }
});

test("validateCredentials() accepts an RSA key", () => {
  const issued = CA.issueLeaf({ service: "web", keyKind: "rsa-2048" });
  const input = { ...INPUT, certPem: issued.certPem, keyPem: issued.keyPem };
  assert.equal(validateCredentials(input).uri, issued.uri);
});

test("validateCredentials() drops roots that come twice", () => {
  const other = createAuthority({ nowMs: NOW_MS });
  const rootPems = [CA.rootPem, other.rootPem + CA.rootPem];
  assert.deepEqual(validateCredentials({ ...INPUT, rootPems }).rootPems, [
    CA.rootPem,
    other.rootPem,
  ]);
});

for (
  const [name, changes, message] of [
    ["a key of another leaf", { keyPem: DB.keyPem }, /does not belong/],
    ["no key", { keyPem: "" }, /no PRIVATE KEY/],
    ["two keys", { keyPem: WEB.keyPem + DB.keyPem }, /more than one/],
    ["an invalid key", { keyPem: formatPem("PRIVATE KEY", Uint8Array.of(1)) }, /can be read/],
    ["no certificate", { certPem: "" }, /no CERTIFICATE/],
    ["garbage", { certPem: formatPem("CERTIFICATE", Uint8Array.of(1)) }, /Cannot use leaf/],
    ["no roots", { rootPems: [] }, /no root/],
    [
      "an invalid root",
      { rootPems: [formatPem("CERTIFICATE", Uint8Array.of(1))] },
      /Cannot use root certificate/,
    ],
    [
      "another root",
      { rootPems: [createAuthority({ nowMs: NOW_MS }).rootPem] },
      /does not reach a root/,
    ],
    ["an expired leaf", { nowMs: WEB.notAfterMs + 1 }, /expired/],
    ["a leaf that is not valid yet", { nowMs: WEB.notBeforeMs - 1 }, /not valid before/],
    ["another trust domain", { trustDomains: ["other.consul"] }, /not ours/],
    ["no trust domain", { trustDomains: [] }, /not ours/],
    ["eleven certificates after the leaf", {
      certPem: WEB.certPem +
        Array.from({ length: 11 }, () => createAuthority({ nowMs: NOW_MS }).rootPem).join(""),
    }, /more than 10/],
    ["a leaf for one direction only", only("clientAuth"), /lacks serverAuth/],
    ["a leaf for the other direction only", only("serverAuth"), /lacks clientAuth/],
    ["a CA", withOverrides({ ca: {} }), /is a CA/],
    ["two URI names", withOverrides({ uris: [WEB.uri, DB.uri] }), /two or more/],
    ["a leaf signed with SHA-1", withOverrides({ hash: "sha1" }), /does not reach a root/],
  ] as const satisfies readonly (readonly [string, Partial<CredentialsInput>, RegExp])[]
) {
  test(`validateCredentials() refuses ${name}`, () => {
    assert.throws(() => validateCredentials({ ...INPUT, ...changes }), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, message);
      assert.match(error.message, /^Cannot (use|read) /);
      return true;
    });
  });
}

test("validateCredentials() never repeats key material", () => {
  const der = parsePem(WEB.keyPem, { what: "key" })[0]?.der ?? new Uint8Array();
  der[2] = 0;
  const keyPem = formatPem("EC PRIVATE KEY", der);
  assert.throws(() => validateCredentials({ ...INPUT, keyPem }), (error) => {
    assert.ok(error instanceof ProxyError);
    const lines = keyPem.split("\n").slice(1, -2);
    assert.ok(lines.every((line) => !error.message.includes(line.slice(0, 16))));
    return true;
  });
});

test("validateCredentials() checks the CA's SPIFFE id only with strictSpiffeChain", () => {
  const bare = createAuthority({ nowMs: NOW_MS, overrides: { uris: [] } });
  const { certPem, keyPem } = bare.issueLeaf({ service: "web", ttlMs: HOUR_MS });
  const input = { ...INPUT, certPem, keyPem, rootPems: [bare.rootPem] };
  assert.equal(validateCredentials(input).id.service, "web");
  assert.throws(() => validateCredentials({ ...input, strictSpiffeChain: true }), /strict-spiffe/);
});

function certificatesOf(pem: string) {
  return parsePem(pem, { what: "chain" }).map((block) => parseCertificate(block.der));
}

function only(usage: string): Partial<CredentialsInput> {
  return withOverrides({ extendedKeyUsage: [usage] });
}

function withOverrides(
  overrides: NonNullable<Parameters<typeof CA.issueLeaf>[0]["overrides"]>,
): Partial<CredentialsInput> {
  const { certPem, keyPem } = CA.issueLeaf({ service: "web", overrides });
  return { certPem, keyPem };
}
