import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { mintCrl } from "../../test/kit/certs/mint_crl.ts";
import { messageOf } from "../base/mod.ts";
import {
  derBits,
  derElement,
  derNumber,
  derOctets,
  derOid,
  derSequence,
  derText,
} from "../wire/der_writer.ts";
import type { ExtraExtension } from "../../test/kit/certs/mint_parts.ts";
import { generateKey, mintCertificate } from "../../test/kit/certs/mint.ts";
import { contextTag, DerReader, TAG } from "../wire/mod.ts";
import { CERTIFICATE_LIMIT_BYTES, parseCertificate } from "./certificate.ts";
import { parseRoots, validateCertificatePair } from "./credentials.ts";
import { parseCrl } from "./crl.ts";
import { OID } from "./oids.ts";
import { findPath } from "./path.ts";
import { PeerJudge } from "./peer_judge.ts";
import { createPeerValidator } from "./rules_validator.ts";
import { PRESENTED_LIMIT_BYTES } from "./chain.ts";
import { compileSanMatchers, compileStringMatcher } from "./leaf_rules.ts";
import { keyFault } from "./signature.ts";
import { parseServiceId, parseSpiffeBundles, parseSpiffeId, parseTrustDomain } from "./spiffe.ts";
import { NO_RULES, type Validation } from "./validation.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const CA = createAuthority({ nowMs: NOW_MS });
const KEY = generateKey();
const LEAF = CA.issueLeaf({ service: "web", key: KEY });
const CERTIFICATE = parseCertificate(LEAF.certDer);
const MESH: Validation = {
  kind: "mesh",
  rootPems: [CA.rootPem],
  trustDomains: [TRUST_DOMAIN],
};
const ANY: Validation = { kind: "ca", rootPems: [CA.rootPem], rules: NO_RULES };

/** A certificate with these extensions in place of its own; its signature is not right. */
function certificateWith(options: {
  readonly extensions?: readonly Uint8Array[];
  readonly signatureBytes?: number;
}): Uint8Array {
  const { extensions = [], signatureBytes = 1 } = options;
  const parts = new DerReader(LEAF.certDer).enter(TAG.sequence, "certificate");
  const fields = parts.enter(TAG.sequence, "tbs");
  const kept: Uint8Array[] = [];
  while (!fields.done) kept.push(fields.any("field").raw);
  kept[kept.length - 1] = derElement(contextTag(3, "constructed"), derSequence(...extensions));
  const signature = derBits(new Uint8Array(signatureBytes));
  return derSequence(derSequence(...kept), parts.any("algorithm").raw, signature);
}

const listing = (oid: string, ...parts: readonly Uint8Array[]) =>
  certificateWith({ extensions: [derSequence(derOid(oid), derOctets(derSequence(...parts)))] });
const times = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index));
const many = (count: number): ExtraExtension[] =>
  times(count, (index) => ({ oid: `1.2.3.${index}`, critical: false, value: derNumber(0) }));
const keyed = (key: typeof CERTIFICATE.key) => keyFault({ ...CERTIFICATE, key });
const filled = (text: string, length: number) => text + "a".repeat(length - text.length);
const refusalOf = (parsed: object) => "reason" in parsed ? String(parsed.reason) : undefined;

function judged(validation: Validation, bytes: number): string | undefined {
  const validator = createPeerValidator(validation, {
    serviceTrustDomains: [TRUST_DOMAIN],
    strictSpiffeChain: false,
  });
  const presented = [new Uint8Array(bytes - LEAF.certDer.length)];
  const peer = { leaf: LEAF.certDer, presented, nowMs: NOW_MS, usage: "client" } as const;
  return refusalOf(validator.judge(peer));
}

/** Whether the verdict on an untrusted peer with this many bytes is cached, which costs a digest of them. */
function remembered(bytes: number): string | undefined {
  const judge = new PeerJudge({
    validator: {
      namesPeers: false,
      judge: () => ({ kind: "untrusted", code: "chain_untrusted", reason: "" }),
    },
    generation: 1,
  });
  judge.judge(new Uint8Array(1), [new Uint8Array(bytes - 1)], { usage: "client", nowMs: NOW_MS });
  return judge.remembered.untrusted === 1 ? undefined : "not remembered";
}

/** A path to the last of several roots with the same key; only the last root is accepted. */
function lastOf(roots: number): string | undefined {
  let seen = 0;
  const path = findPath({
    leaf: CERTIFICATE,
    presented: [],
    roots: times(roots, (index) =>
      parseCertificate(mintCertificate({
        publicKey: CA.key.publicKey,
        signer: CA.key.privateKey,
        serial: Uint8Array.of(index + 1),
        notBeforeMs: NOW_MS - HOUR_MS,
        notAfterMs: NOW_MS + HOUR_MS,
        ca: {},
      }))),
    nowMs: NOW_MS,
    usage: "client",
    pathFault: () => ++seen === roots ? undefined : `${seen} of them will not do`,
  });
  return refusalOf(path);
}

// A value at the limit is accepted, and the next value is refused with the reason.
for (
  const [name, refusal, last, beyond, reason] of [
    [
      "bytes of a certificate",
      (bytes) => {
        const sized = (size: number) => certificateWith({ signatureBytes: size });
        parseCertificate(sized(2 * bytes - sized(bytes).length));
      },
      CERTIFICATE_LIMIT_BYTES,
      CERTIFICATE_LIMIT_BYTES + 1,
      /it has 16385 bytes/,
    ],
    [
      "alternative names",
      (count) => {
        const names = times(count, () => derText(contextTag(2, "primitive"), "x"));
        parseCertificate(listing(OID.subjectAltName, ...names));
      },
      100,
      101,
      /more than 100 names/,
    ],
    [
      "the type of an alternative name",
      (type) => {
        const name = derText(contextTag(type, "primitive"), "x");
        parseCertificate(listing(OID.subjectAltName, name));
      },
      8,
      9,
      /unknown type/,
    ],
    [
      "extended key usages",
      (count) => {
        const usages = times(count, (index) => derOid(`1.2.3.${index}`));
        parseCertificate(listing(OID.extendedKeyUsage, ...usages));
      },
      100,
      101,
      /more than 100 extended/,
    ],
    [
      "bytes of key usage",
      (bytes) => {
        const value = derOctets(derBits(new Uint8Array(bytes).fill(1)));
        parseCertificate(
          certificateWith({ extensions: [derSequence(derOid(OID.keyUsage), value)] }),
        );
      },
      2,
      3,
      /too many bits/,
    ],
    [
      "extensions of a revocation list",
      (count) => {
        const signer = CA.key.privateKey;
        parseCrl(mintCrl({ signer, thisUpdateMs: NOW_MS, extensions: many(count) }));
      },
      40,
      41,
      /more than 40 extensions/,
    ],
    [
      "bits of an RSA key",
      (bits) => keyed({ kind: "rsa", bits, exponentBits: 17 }),
      8192,
      8193,
      /8193 bits/,
    ],
    [
      "bits of an RSA key, from below",
      (bits) => keyed({ kind: "rsa", bits, exponentBits: 17 }),
      2048,
      2047,
      /2047 bits/,
    ],
    [
      "bits of an RSA exponent",
      (exponentBits) => keyed({ kind: "rsa", bits: 2048, exponentBits }),
      33,
      34,
      /unreasonable exponent/,
    ],
    [
      "bits of an RSA exponent, from below",
      (exponentBits) => keyed({ kind: "rsa", bits: 2048, exponentBits }),
      2,
      1,
      /unreasonable exponent/,
    ],
    [
      "characters of a service id",
      (length) => refusalOf(parseServiceId(filled("spiffe://td/ns/a/dc/b/svc/", length))),
      2048,
      2049,
      /longer than 2048/,
    ],
    [
      "characters of a SPIFFE id",
      (length) => refusalOf(parseSpiffeId(filled("spiffe://td/", length))),
      2048,
      2049,
      /longer than 2048/,
    ],
    [
      "characters of a trust domain",
      (length) => parseTrustDomain(filled("", length)) ? undefined : "no trust domain",
      255,
      256,
      /no trust domain/,
    ],
    [
      "characters of SPIFFE bundles",
      (length) => {
        parseSpiffeBundles(`{"trust_domains":{"a":{"keys":[]}}}`.padEnd(length));
      },
      4 << 20,
      (4 << 20) + 1,
      /longer than 4194304/,
    ],
    [
      "trust domains of SPIFFE bundles",
      (count) => {
        const domains = times(count, (index) => [`d${index}`, { keys: [] }]);
        parseSpiffeBundles(JSON.stringify({ trust_domains: Object.fromEntries(domains) }));
      },
      1000,
      1001,
      /more than 1000/,
    ],
    [
      "keys of a SPIFFE bundle",
      (count) => {
        const keys = times(count, () => ({}));
        parseSpiffeBundles(JSON.stringify({ trust_domains: { a: { keys } } }));
      },
      100,
      101,
      /more than 100 keys/,
    ],
    [
      "trust domains of spiffe rules",
      (count) => {
        const bundles = Object.fromEntries(times(count, (index) => [`d${index}`, []]));
        createPeerValidator({ kind: "spiffe", bundles, rules: NO_RULES }, {
          serviceTrustDomains: [],
          strictSpiffeChain: false,
        });
      },
      1000,
      1001,
      /more than 1000 trust domains/,
    ],
    [
      "CA certificates that rules allow a path",
      (maxDepth) => {
        createPeerValidator({ ...ANY, rules: { ...NO_RULES, maxDepth } }, {
          serviceTrustDomains: [],
          strictSpiffeChain: false,
        });
      },
      100,
      101,
      /depth is 101/,
    ],
    [
      "SAN matchers",
      (count) => {
        const matcher = { kind: "exact", value: "a", ignoreCase: false } as const;
        compileSanMatchers(times(count, () => ({ type: "dns", matcher })));
      },
      1000,
      1001,
      /more than 1000 SAN matchers/,
    ],
    [
      "characters of a matcher",
      (length) => {
        compileStringMatcher({ kind: "exact", value: filled("", length), ignoreCase: false });
      },
      4096,
      4097,
      /longer than 4096/,
    ],
    [
      "roots",
      (count) => {
        const pems = [CA, ...times(2, () => createAuthority({ nowMs: NOW_MS }))];
        parseRoots(pems.slice(0, count).map(({ rootPem }) => rootPem), { limit: 2 });
      },
      2,
      3,
      /more than 2 roots/,
    ],
    [
      "certificates that follow a leaf",
      (count) => {
        const { certPem, keyPem } = LEAF;
        const others = times(count, () => CA.issueLeaf({ service: "web", key: KEY }).certPem);
        validateCertificatePair({ certPem: certPem + others.join(""), keyPem, nowMs: NOW_MS });
      },
      10,
      11,
      /11 certificates follow/,
    ],
    [
      "bytes that a peer of the mesh presents",
      (bytes) => judged(MESH, bytes),
      PRESENTED_LIMIT_BYTES,
      PRESENTED_LIMIT_BYTES + 1,
      /more than 65536 bytes/,
    ],
    [
      "bytes that a peer under rules presents",
      (bytes) => judged(ANY, bytes),
      PRESENTED_LIMIT_BYTES,
      PRESENTED_LIMIT_BYTES + 1,
      /more than 65536 bytes/,
    ],
    [
      "bytes of an untrusted peer that is cached",
      remembered,
      PRESENTED_LIMIT_BYTES,
      PRESENTED_LIMIT_BYTES + 1,
      /not remembered/,
    ],
    ["whole paths that are checked", lastOf, 8, 9, /1 of them will not do/],
  ] as readonly (readonly [
    name: string,
    refusal: (size: number) => string | undefined | void,
    last: number,
    beyond: number,
    reason: RegExp,
  ])[]
) {
  test(`identity accepts at most ${last} as the limit of ${name}`, () => {
    const outcome = (size: number): string | undefined => {
      try {
        return refusal(size) ?? undefined;
      } catch (error) {
        return messageOf(error);
      }
    };
    assert.equal(outcome(last), undefined);
    assert.match(outcome(beyond) ?? "", reason);
  });
}
