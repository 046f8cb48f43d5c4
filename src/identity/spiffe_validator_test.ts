import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { prepareRegexes } from "../base/mod.ts";
import { derNamedBits } from "../wire/der_writer.ts";
import { formatPem } from "../wire/mod.ts";
import type { Authority, CertificateOverrides } from "../../test/kit/certs/authority.ts";
import { parseCertificate } from "./certificate.ts";
import type { ChainVerdict } from "./chain.ts";
import { generateKey } from "../../test/kit/certs/mint.ts";
import { mintCrlPem } from "../../test/kit/certs/mint_crl.ts";
import { OID } from "./oids.ts";
import { createPeerValidator, type RetiredAnchor } from "./rules_validator.ts";
import { parseSpiffeId } from "./spiffe.ts";
import { NO_RULES, type PeerRules, type SanMatcher } from "./validation.ts";

await prepareRegexes();

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const KEY = generateKey();
const OURS = createAuthority({ nowMs: NOW_MS, trustDomain: "ours.example", name: "ours" });
const THEIRS = createAuthority({ nowMs: NOW_MS, trustDomain: "theirs.example", name: "theirs" });
const BUNDLES = { "ours.example": [OURS.rootPem], "theirs.example": [THEIRS.rootPem] };
const WEB = "spiffe://ours.example/web";
const SERVICE = "spiffe://ours.example/ns/default/dc/dc1/svc/web";

interface Case {
  readonly by?: Authority;
  readonly uris?: readonly string[];
  readonly leaf?: CertificateOverrides;
  readonly rules?: Partial<PeerRules>;
  readonly bundles?: Readonly<Record<string, readonly string[]>>;
  readonly strict?: boolean;
  readonly services?: readonly string[];
  readonly retired?: readonly RetiredAnchor[];
}

function judge(options: Case): ChainVerdict {
  const { by = OURS, uris = [WEB], leaf = {}, rules = {}, bundles = BUNDLES } = options;
  const overrides = { uris, ...leaf };
  const issued = by.issueLeaf({ service: "web", key: KEY, overrides });
  const validator = createPeerValidator(
    { kind: "spiffe", bundles, rules: { ...NO_RULES, ...rules } },
    {
      serviceTrustDomains: options.services ?? ["ours.example"],
      strictSpiffeChain: options.strict ?? false,
      retired: options.retired ?? [],
    },
  );
  const { certDer, chainDer } = issued;
  return validator.judge({ leaf: certDer, presented: chainDer, nowMs: NOW_MS, usage: "server" });
}

const uri = (value: string): SanMatcher => ({
  type: "uri",
  matcher: { kind: "exact", value, ignoreCase: false },
});
const dns = (value: string): SanMatcher => ({ ...uri(value), type: "dns" });
const plainKeyUsage = { oid: OID.keyUsage, critical: false, value: derNamedBits([0]) };
const bareCa = createAuthority({
  nowMs: NOW_MS,
  trustDomain: "ours.example",
  overrides: { uris: [] },
});

for (
  const [name, options] of [
    ["an SVID of its domain", {}],
    ["an SVID of another trusted domain", { by: THEIRS, uris: ["spiffe://theirs.example/db"] }],
    ["an SVID under an intermediate", { by: OURS.intermediate() }],
    ["an SVID with an additional DNS name", { leaf: { dnsNames: ["web.example"] } }],
    ["an SVID without extended key usage", { leaf: { extendedKeyUsage: undefined } }],
    ["an SVID without basic constraints", { leaf: { ca: undefined } }],
    ["an id that a rule names", { rules: { matchers: [uri("x:y"), uri(WEB)] } }],
    ["an id that a regex matches", {
      rules: {
        matchers: [{
          type: "uri",
          matcher: { kind: "regex", regex: "spiffe://ours[.]example/.*" },
        }],
      },
    }],
    ["rules for other kinds of names, which do not count", { rules: { matchers: [dns("no")] } }],
    ["an expired SVID where dates are ignored", {
      leaf: { notAfterMs: NOW_MS - 1000 },
      rules: { allowExpired: true },
    }],
    ["a CA without an id of its own", {
      by: bareCa,
      bundles: { "ours.example": [bareCa.rootPem] },
    }],
  ] as const
) {
  test(`a spiffe validator trusts ${name}`, () => {
    const verdict = judge(options as Case);
    assert.ok(verdict.kind === "trusted", JSON.stringify(verdict));
    assert.equal(verdict.verified, true);
  });
}

for (
  const [name, options, reason] of [
    ["an id of ours from their CA", { by: THEIRS, uris: [WEB] }, /has signed it/],
    ["an id of theirs from our CA", { uris: ["spiffe://theirs.example/db"] }, /has signed it/],
    ["a domain without a bundle", { uris: ["spiffe://other.example/web"] }, /there is no bundle/],
    ["a domain whose bundle is empty", {
      bundles: { "ours.example": [], "theirs.example": [OURS.rootPem] },
    }, /has signed it/],
    ["the name of a property", { uris: ["spiffe://constructor/web"] }, /there is no bundle/],
    ["a subdomain", { uris: ["spiffe://a.ours.example/web"] }, /there is no bundle/],
    ["a domain in capitals", { uris: ["spiffe://Ours.example/web"] }, /no valid trust domain/],
    ["no URI", { uris: [], leaf: { dnsNames: ["web.example"] } }, /no URI name/],
    ["two URIs", { uris: [WEB, "x:y"] }, /two or more URI/],
    ["an id without a path", { uris: ["spiffe://ours.example"] }, /no path/],
    ["an id of the domain itself", { uris: ["spiffe://ours.example/"] }, /no path/],
    ["another scheme", { uris: ["https://ours.example/web"] }, /spiffe:\/\//],
    ["an escaped path", { uris: ["spiffe://ours.example/a%2fb"] }, /not allowed/],
    ["an empty segment", { uris: ["spiffe://ours.example/a//b"] }, /empty/],
    ["a slash at the end", { uris: ["spiffe://ours.example/a/"] }, /empty/],
    ["a dotted segment", { uris: ["spiffe://ours.example/a/../b"] }, /dotted/],
    ["a query", { uris: ["spiffe://ours.example/a?b"] }, /not allowed/],
    ["a fragment", { uris: ["spiffe://ours.example/a#b"] }, /not allowed/],
    ["a port", { uris: ["spiffe://ours.example:1/a"] }, /no valid trust domain/],
    ["a user", { uris: ["spiffe://a@ours.example/a"] }, /no valid trust domain/],
    ["a long id", { uris: [`${WEB}${"a".repeat(2048)}`] }, /longer than 2048/],
    ["a CA", { leaf: { ca: {} } }, /is a CA/],
    ["no key usage", { leaf: { keyUsage: undefined } }, /no key usage/],
    ["a key usage that is not critical", {
      leaf: { keyUsage: undefined, extensions: [plainKeyUsage] },
    }, /not critical/],
    ["keyCertSign", { leaf: { keyUsage: ["digitalSignature", "keyCertSign"] } }, /of a CA/],
    ["cRLSign", { leaf: { keyUsage: ["digitalSignature", "cRLSign"] } }, /of a CA/],
    ["no digitalSignature", { leaf: { keyUsage: ["keyAgreement"] } }, /lacks digitalSignature/],
    ["a leaf for servers only", { leaf: { extendedKeyUsage: ["serverAuth"] } }, /lacks clientAuth/],
    ["a leaf for clients only", { leaf: { extendedKeyUsage: ["clientAuth"] } }, /lacks serverAuth/],
    ["a leaf for any usage", { leaf: { extendedKeyUsage: ["2.5.29.37.0"] } }, /lacks serverAuth/],
    ["an expired leaf", { leaf: { notAfterMs: NOW_MS - 1000 } }, /expired/],
    ["a name that matches no rule", { rules: { matchers: [uri(`${WEB}2`)] } }, /alternative names/],
    ["a name that matches no rule for URIs", {
      leaf: { dnsNames: ["web.example"] },
      rules: { matchers: [uri(`${WEB}2`), dns("web.example")] },
    }, /alternative names/],
    ["another key than the pinned one", {
      rules: { spkiPins: [createHash("sha256").update("x").digest("base64")] },
    }, /pinned/],
    ["a CA without an id, where it must have one", {
      by: bareCa,
      bundles: { "ours.example": [bareCa.rootPem] },
      strict: true,
    }, /trust domain/],
    ["a CA of another domain in our bundle, where ids must fit", {
      by: THEIRS,
      bundles: { "ours.example": [THEIRS.rootPem] },
      strict: true,
    }, /trust domain/],
    ["a revoked leaf", {
      leaf: { serial: Uint8Array.of(7) },
      rules: {
        crlPems: [mintCrlPem({
          signer: OURS.key.privateKey,
          issuer: "ours",
          thisUpdateMs: NOW_MS,
          revoked: ["07"],
        })],
      },
    }, /revoked/],
    ["a domain without a list where another has one", {
      by: THEIRS,
      uris: ["spiffe://theirs.example/db"],
      rules: {
        crlPems: [
          mintCrlPem({ signer: OURS.key.privateKey, issuer: "ours", thisUpdateMs: NOW_MS }),
        ],
      },
    }, /no revocation list/],
  ] as const
) {
  test(`a spiffe validator refuses ${name}`, () => {
    const verdict = judge(options as Case);
    assert.ok(verdict.kind === "untrusted", "trusted");
    assert.match(verdict.reason, reason);
  });
}

test("a spiffe validator does not accept a leaf as its own anchor", () => {
  const issued = OURS.issueLeaf({ service: "web", key: KEY, overrides: { uris: [WEB] } });
  const validator = createPeerValidator(
    {
      kind: "spiffe",
      bundles: { "ours.example": [formatPem("CERTIFICATE", issued.certDer)] },
      rules: NO_RULES,
    },
    { serviceTrustDomains: [], strictSpiffeChain: false },
  );
  const peer = { leaf: issued.certDer, presented: [], nowMs: NOW_MS, usage: "client" } as const;
  assert.equal(validator.judge(peer).kind, "untrusted");
});

test("a spiffe validator returns a service id only for serviceTrustDomains", () => {
  const ours = judge({ uris: [SERVICE] });
  assert.ok(ours.kind === "trusted" && ours.id?.service === "web");
  assert.equal(ours.uri, SERVICE);
  const foreign = judge({ uris: [SERVICE], services: ["theirs.example"] });
  assert.ok(foreign.kind === "trusted" && foreign.id === undefined);
  const workload = judge({});
  assert.ok(workload.kind === "trusted" && workload.id === undefined);
  assert.deepEqual([workload.uri, workload.name], [WEB, WEB]);
});

test("a spiffe validator accepts untrusted peers unverified, without an id", () => {
  const rules = { acceptUntrusted: true };
  for (const options of [{ by: THEIRS, uris: [SERVICE] }, { leaf: { ca: {} }, uris: [SERVICE] }]) {
    const verdict = judge({ ...options, rules });
    assert.ok(verdict.kind === "trusted");
    assert.deepEqual([verdict.verified, verdict.id, verdict.uri], [false, undefined, SERVICE]);
  }
});

test("namesPeers of a spiffe validator counts only rules for URIs", () => {
  const namesPeers = (matchers: readonly SanMatcher[]) =>
    createPeerValidator(
      { kind: "spiffe", bundles: BUNDLES, rules: { ...NO_RULES, matchers } },
      { serviceTrustDomains: [], strictSpiffeChain: false },
    ).namesPeers;
  assert.equal(namesPeers([]), false);
  assert.equal(namesPeers([dns("a")]), false);
  assert.equal(namesPeers([uri("a")]), true);
});

const unnamed = (count: number): Record<string, readonly string[]> =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`not a name ${at}`, []]));

for (
  const [name, bundles, reason] of [
    ["no bundle", {}, /no trust bundle/],
    ["too many bundles", unnamed(1001), /more than 1000 trust domains/],
    ["1000 bundles with invalid names", unnamed(1000), /is not the name/],
    ["a domain in capitals", { Ours: [OURS.rootPem] }, /"Ours" is not the name/],
    ["a domain as id", { "spiffe://ours": [OURS.rootPem] }, /is not the name/],
    ["an invalid bundle", { ours: ["x"] }, /certificate of the bundle of ours/],
  ] as const satisfies readonly (readonly [string, Record<string, readonly string[]>, RegExp])[]
) {
  test(`createPeerValidator() refuses ${name} of spiffe`, () => {
    const options = { serviceTrustDomains: [], strictSpiffeChain: false };
    assert.throws(
      () => createPeerValidator({ kind: "spiffe", bundles, rules: NO_RULES }, options),
      reason,
    );
  });
}

test("parseSpiffeId() reads trust domain and path", () => {
  assert.deepEqual(parseSpiffeId("spiffe://a.b-c_d/E/f.g-h_1"), {
    kind: "id",
    trustDomain: "a.b-c_d",
    path: "/E/f.g-h_1",
  });
});

test("parseCertificate() reads whether key usage is critical", () => {
  const der = OURS.issueLeaf({ service: "web", key: KEY }).certDer;
  assert.equal(parseCertificate(der).keyUsageCritical, true);
});

for (
  const [trustDomain, kind] of [["ours.example", "trusted"], [
    "theirs.example",
    "untrusted",
  ]] as const
) {
  test(`a retired anchor of ${trustDomain} leaves a peer of ours.example ${kind}`, () => {
    const certificate = parseCertificate(OURS.rootDer);
    const retired = [{ certificate, rootId: "", trustDomain }];
    const bundles = { "ours.example": [], "theirs.example": [] };
    assert.equal(judge({ bundles, retired }).kind, kind);
    assert.equal(judge({ bundles }).kind, "untrusted");
  });
}
