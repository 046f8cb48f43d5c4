import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { createAuthority, TRUST_DOMAIN } from "../../test/kit/certs/certificates.ts";
import { ProxyError } from "../base/mod.ts";
import { formatPem } from "../wire/mod.ts";
import type {
  Authority,
  CertificateOverrides,
  IssuedLeaf,
} from "../../test/kit/certs/authority.ts";
import { fingerprintOf, parseCertificate } from "./certificate.ts";
import type { ChainVerdict, PeerToJudge, TrustedPeer } from "./chain.ts";
import { generateKey, mintCertificate } from "../../test/kit/certs/mint.ts";
import { mintCrlPem } from "../../test/kit/certs/mint_crl.ts";
import { createPeerValidator } from "./rules_validator.ts";
import { NO_RULES, type PeerRules, type SanMatcher, type Validation } from "./validation.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const HOUR_MS = 3_600_000;
const CA = createAuthority({ nowMs: NOW_MS });
const STRANGER = createAuthority({ nowMs: NOW_MS });
const KEY = generateKey();
const OPTIONS = { serviceTrustDomains: [TRUST_DOMAIN], strictSpiffeChain: false };
const URI = `spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/web`;
const NAMED = matcher("web.example");

function matcher(value: string): SanMatcher {
  return { type: "dns", matcher: { kind: "exact", value, ignoreCase: false } };
}

function leafWith(overrides: CertificateOverrides = {}, authority: Authority = CA): IssuedLeaf {
  return authority.issueLeaf({ service: "web", key: KEY, overrides });
}

/** A self-signed leaf. */
function selfSigned(overrides: CertificateOverrides = {}): IssuedLeaf {
  const certDer = mintCertificate({
    publicKey: KEY.publicKey,
    signer: KEY.privateKey,
    subject: "self",
    issuer: "self",
    notBeforeMs: NOW_MS - HOUR_MS,
    notAfterMs: NOW_MS + HOUR_MS,
    dnsNames: ["web.example"],
    ...overrides,
  });
  return { ...leafWith(), certDer, chainDer: [] };
}

const pemOf = (der: Uint8Array) => formatPem("CERTIFICATE", der);
const spkiPin = (der: Uint8Array) =>
  createHash("sha256").update(parseCertificate(der).spki).digest("base64");
const hashPin = (der: Uint8Array) => createHash("sha256").update(der).digest("hex");

interface Case extends Partial<PeerToJudge> {
  readonly roots?: readonly string[];
  readonly rules?: Partial<PeerRules>;
}

function judge(issued: IssuedLeaf, changes: Case = {}): ChainVerdict {
  const { roots = [CA.rootPem], rules = {}, ...peer } = changes;
  const validation: Validation = { kind: "ca", rootPems: roots, rules: { ...NO_RULES, ...rules } };
  return createPeerValidator(validation, OPTIONS).judge({
    leaf: issued.certDer,
    presented: issued.chainDer,
    nowMs: NOW_MS,
    usage: "client",
    ...peer,
  });
}

function assertTrusted(verdict: ChainVerdict): TrustedPeer {
  assert.ok(verdict.kind === "trusted", JSON.stringify(verdict));
  return verdict;
}

function assertRefused(verdict: ChainVerdict, code: string, reason: RegExp): void {
  assert.ok(verdict.kind === "untrusted", JSON.stringify(verdict));
  assert.match(verdict.reason, reason);
  assert.equal(verdict.code, code);
}

test("a ca validator returns the peer's identity and its validity", () => {
  const issued = leafWith();
  const peer = assertTrusted(judge(issued));
  const root = parseCertificate(CA.rootDer);
  assert.deepEqual(peer, {
    kind: "trusted",
    id: {
      trustDomain: TRUST_DOMAIN,
      partition: "default",
      namespace: "default",
      datacenter: "dc1",
      service: "web",
    },
    uri: URI,
    name: URI,
    verified: true,
    serial: parseCertificate(issued.certDer).serial,
    notBeforeMs: Math.max(issued.notBeforeMs, root.notBeforeMs),
    notAfterMs: issued.notAfterMs,
    rootId: fingerprintOf(root),
  });
});

for (
  const [name, overrides, uri, shown, isService] of [
    ["a service of ours", {}, URI, URI, true],
    [
      "a service of ours in another spelling",
      { uris: [`spiffe://${TRUST_DOMAIN.toUpperCase()}/ap/default/ns/default/dc/dc1/svc/web`] },
      URI,
      URI,
      true,
    ],
    [
      "a service of another trust domain",
      { uris: ["spiffe://Other.consul/ns/default/dc/dc1/svc/web"] },
      "spiffe://other.consul/ns/default/dc/dc1/svc/web",
      "spiffe://other.consul/ns/default/dc/dc1/svc/web",
      false,
    ],
    [
      "a SPIFFE id that is no service",
      { uris: [`spiffe://${TRUST_DOMAIN.toUpperCase()}/Web`] },
      `spiffe://${TRUST_DOMAIN}/Web`,
      `spiffe://${TRUST_DOMAIN}/Web`,
      false,
    ],
    ["another URI", { uris: ["HTTPS://Web/"] }, "HTTPS://Web/", "HTTPS://Web/", false],
    ["two URIs", { uris: [URI, "a:b"], dnsNames: ["web.example"] }, "", "web.example", false],
    ["a DNS name", { uris: [], dnsNames: ["Web.example", "b"] }, "", "Web.example", false],
    ["no name", { uris: [], serial: Uint8Array.of(7, 8) }, "", "certificate 07:08", false],
  ] as const satisfies readonly (readonly [
    string,
    CertificateOverrides,
    string,
    string,
    boolean,
  ])[]
) {
  test(`a ca validator names a peer with ${name}`, () => {
    const peer = assertTrusted(judge(leafWith(overrides)));
    assert.equal(peer.uri, uri);
    assert.equal(peer.name, shown);
    assert.equal(peer.id !== undefined, isService);
    assert.equal(peer.verified, true);
    assert.equal(peer.claims !== undefined, name === "two URIs");
  });
}

test("a ca validator returns a claim for each of several URIs", () => {
  const { id, claims } = assertTrusted(judge(leafWith({ uris: ["spiffe://B.test/x", URI] })));
  assert.equal(id, undefined);
  assert.deepEqual(claims?.map(({ id, uri }) => [id?.service, uri]), [
    [undefined, "spiffe://b.test/x"],
    ["web", URI],
  ]);
});

test("a ca validator accepts 1000 pins of both kinds, and no more", () => {
  const issued = leafWith();
  const rules = (spkis: number) => ({
    spkiPins: Array.from({ length: spkis }, () => spkiPin(issued.certDer)),
    certificateHashes: Array.from({ length: 500 }, () => hashPin(issued.certDer)),
  });
  assertTrusted(judge(issued, { rules: rules(500) }));
  assert.throws(
    () => judge(issued, { rules: rules(501) }),
    /^ProxyError: Cannot use validation: there are more than 1000 pins$/,
  );
});

for (
  const [name, overrides, usage] of [
    ["without extended key usage", { extendedKeyUsage: undefined }, "client"],
    ["for anything", { extendedKeyUsage: ["2.5.29.37.0"] }, "server"],
    ["for clients, as client", { extendedKeyUsage: ["clientAuth"] }, "client"],
    ["without key usage", { keyUsage: undefined }, "server"],
    ["without basic constraints", { ca: undefined }, "client"],
  ] as const
) {
  test(`a ca validator trusts a leaf ${name}`, () => {
    // `undefined` removes a field.
    assertTrusted(judge(leafWith(overrides as CertificateOverrides), { usage }));
  });
}

for (
  const [name, overrides, reason] of [
    ["that is a CA", { ca: {} }, /is a CA/],
    ["for servers only", { extendedKeyUsage: ["serverAuth"] }, /lacks clientAuth/],
    ["without digitalSignature", { keyUsage: ["keyEncipherment"] }, /lacks digitalSignature/],
    ["expired", { notAfterMs: NOW_MS - 1000 }, /expired/],
    ["not valid yet", { notBeforeMs: NOW_MS + 1000 }, /not valid before/],
    [
      "with an unknown critical extension",
      { extensions: [{ oid: "1.2.3.4", critical: true, value: Uint8Array.of(5, 0) }] },
      /not understood/,
    ],
  ] as const satisfies readonly (readonly [string, CertificateOverrides, RegExp])[]
) {
  test(`a ca validator refuses a leaf ${name}`, () => {
    assertRefused(judge(leafWith(overrides)), "identity_invalid", reason);
  });
}

test("a ca validator accepts an intermediate as anchor, without its root", () => {
  const below = CA.intermediate();
  const [der] = below.chainDer;
  assert.ok(der);
  const issued = leafWith({}, below);
  const peer = assertTrusted(judge(issued, { roots: [pemOf(der)], presented: [] }));
  assert.equal(peer.verified, true);
  assertRefused(judge(leafWith(), { roots: [pemOf(der)] }), "chain_untrusted", /has signed it/);
  assertRefused(judge(issued, { presented: [] }), "chain_untrusted", /has signed it/);
  assertTrusted(judge(issued));
});

for (
  const [name, overrides, trusted] of [
    ["a plain leaf", {}, true],
    ["a CA as `openssl req -x509` makes it", { ca: {} }, true],
    ["a CA that may sign others", { ca: {}, keyUsage: ["digitalSignature", "keyCertSign"] }, false],
    ["an expired leaf", { notAfterMs: NOW_MS - 1000 }, false],
    ["a leaf for another usage", { extendedKeyUsage: ["1.2.3"] }, false],
  ] as const satisfies readonly (readonly [string, CertificateOverrides, boolean])[]
) {
  test(`a ca validator ${trusted ? "accepts" : "refuses"} ${name} as its own anchor`, () => {
    const issued = selfSigned(overrides);
    const listed = judge(issued, { roots: [CA.rootPem, pemOf(issued.certDer)] });
    assert.equal(listed.kind, trusted ? "trusted" : "untrusted", JSON.stringify(listed));
    const pinned = judge(issued, { roots: [], rules: { spkiPins: [spkiPin(issued.certDer)] } });
    assert.equal(pinned.kind, trusted ? "trusted" : "untrusted", JSON.stringify(pinned));
    assert.equal(judge(issued).kind, "untrusted");
  });
}

test("a ca validator does not let a listed leaf vouch for others", () => {
  const anchor = selfSigned();
  const other = leafWith({ signer: KEY.privateKey, issuer: "self", publicKey: CA.key.publicKey });
  assert.equal(judge(other, { roots: [pemOf(anchor.certDer)] }).kind, "untrusted");
});

test("a ca validator counts CA certificates, the anchor included, against the depth", () => {
  const issued = leafWith({}, CA.intermediate());
  assertTrusted(judge(issued, { rules: { maxDepth: 2 } }));
  assertRefused(judge(issued, { rules: { maxDepth: 1 } }), "chain_untrusted", /more than 1 CA/);
  assertTrusted(judge(leafWith(), { rules: { maxDepth: 1 } }));
  assertRefused(judge(leafWith(), { rules: { maxDepth: 0 } }), "chain_untrusted", /more than 0 CA/);
  const own = selfSigned();
  assertTrusted(judge(own, { roots: [pemOf(own.certDer)], rules: { maxDepth: 0 } }));
});

test("a ca validator ignores the dates of the whole path with allowExpired", () => {
  const old = createAuthority({ nowMs: NOW_MS, overrides: { notAfterMs: NOW_MS - HOUR_MS } });
  const issued = leafWith({ notAfterMs: NOW_MS - HOUR_MS }, old);
  const roots = [old.rootPem];
  assertRefused(judge(issued, { roots }), "identity_invalid", /expired/);
  assertRefused(judge(leafWith({}, old), { roots }), "chain_untrusted", /expired/);
  const peer = assertTrusted(judge(issued, { roots, rules: { allowExpired: true } }));
  assert.equal(peer.verified, true);
  assert.ok(peer.notBeforeMs < NOW_MS && peer.notAfterMs > NOW_MS);
  assert.ok(new Date(peer.notAfterMs).toISOString());
});

test("a ca validator accepts an untrusted peer with acceptUntrusted", () => {
  const rules = { acceptUntrusted: true };
  for (
    const issued of [
      leafWith({}, STRANGER),
      leafWith({ notAfterMs: NOW_MS - 1000 }),
      leafWith({ ca: {} }),
      selfSigned({ uris: [URI] }),
    ]
  ) {
    for (const roots of [[CA.rootPem], []]) {
      const peer = assertTrusted(judge(issued, { roots, rules }));
      assert.equal(peer.verified, false);
      assert.equal(peer.id, undefined, "a claim is not an identity");
      assert.equal(peer.uri, URI);
      assert.equal(peer.rootId, "");
    }
  }
  assert.equal(assertTrusted(judge(leafWith(), { rules })).verified, true);
  const garbage = judge(leafWith(), { rules, leaf: Uint8Array.of(0x30, 0) });
  assertRefused(garbage, "identity_invalid", /Cannot read certificate/);
});

test("a ca validator checks pins and names of untrusted peers that it accepts", () => {
  const issued = leafWith({ dnsNames: ["web.example"] }, STRANGER);
  const untrusted = { acceptUntrusted: true };
  const other = spkiPin(CA.rootDer);
  assertTrusted(judge(issued, { rules: { ...untrusted, matchers: [NAMED] } }));
  assertTrusted(judge(issued, { roots: [], rules: { ...untrusted, matchers: [NAMED] } }));
  const misnamed = judge(issued, { rules: { ...untrusted, matchers: [matcher("no.example")] } });
  assertRefused(misnamed, "identity_invalid", /alternative names/);
  const unpinned = judge(issued, { rules: { ...untrusted, spkiPins: [other] } });
  assertRefused(unpinned, "chain_untrusted", /pinned/);
});

for (
  const [name, pins, trusted] of [
    ["its key", { spkiPins: [spkiPin(leafWith().certDer)] }, true],
    ["another key", { spkiPins: [spkiPin(CA.rootDer)] }, false],
    ["another certificate", { certificateHashes: [hashPin(CA.rootDer)] }, false],
    [
      "its key beside another certificate",
      { spkiPins: [spkiPin(leafWith().certDer)], certificateHashes: [hashPin(CA.rootDer)] },
      true,
    ],
  ] as const
) {
  test(`a ca validator ${trusted ? "accepts" : "refuses"} a leaf where ${name} is pinned`, () => {
    const verdicts = [
      judge(leafWith(), { rules: pins }),
      judge(leafWith(), { rules: pins, roots: [] }),
    ];
    for (const verdict of verdicts) {
      if (trusted) assertTrusted(verdict);
      else assertRefused(verdict, "chain_untrusted", /pin/);
    }
  });
}

test("a ca validator accepts the pinned certificate", () => {
  const issued = leafWith();
  const rules = { certificateHashes: [hashPin(issued.certDer)], spkiPins: [spkiPin(CA.rootDer)] };
  assertTrusted(judge(issued, { rules }));
  assertTrusted(judge(issued, { rules, roots: [] }));
  assert.equal(judge(leafWith(), { rules }).kind, "untrusted", "the same key, another certificate");
});

test("a ca validator checks the chain although a pin fits", () => {
  const issued = leafWith({}, STRANGER);
  const rules = { spkiPins: [spkiPin(issued.certDer)] };
  assertRefused(judge(issued, { rules }), "chain_untrusted", /has signed it/);
});

test("a ca validator requires a matching name, the chain and a pin", () => {
  const issued = leafWith({ dnsNames: ["web.example"] });
  const pin = { spkiPins: [spkiPin(issued.certDer)] };
  assertTrusted(judge(issued, { rules: { matchers: [NAMED], ...pin } }));
  assertTrusted(judge(issued, { rules: { matchers: [matcher("no.example"), NAMED] } }));
  const misnamed = judge(issued, { rules: { matchers: [matcher("no.example")], ...pin } });
  const uri = issued.uri.replaceAll(".", "\\.");
  const reason = new RegExp(`alternative names .* accepted \\(${uri}, web\\.example\\)$`);
  assertRefused(misnamed, "identity_invalid", reason);
  const unpinned = { matchers: [NAMED], spkiPins: [spkiPin(CA.rootDer)] };
  assertRefused(judge(issued, { rules: unpinned }), "chain_untrusted", /pinned/);
  const strange = leafWith({ dnsNames: ["web.example"] }, STRANGER);
  assertRefused(judge(strange, { rules: { matchers: [NAMED] } }), "chain_untrusted", /signed/);
});

test("namesPeers is true for rules with names or pins", () => {
  const namesPeers = (rules: Partial<PeerRules>) => {
    const validation: Validation = {
      kind: "ca",
      rootPems: [CA.rootPem],
      rules: { ...NO_RULES, ...rules },
    };
    return createPeerValidator(validation, OPTIONS).namesPeers;
  };
  assert.equal(namesPeers({}), false);
  assert.equal(namesPeers({ matchers: [NAMED] }), true);
  assert.equal(namesPeers({ spkiPins: [spkiPin(CA.rootDer)] }), true);
  assert.equal(namesPeers({ certificateHashes: [hashPin(CA.rootDer)] }), true);
  const mesh = { kind: "mesh", rootPems: [CA.rootPem], trustDomains: [TRUST_DOMAIN] } as const;
  assert.equal(createPeerValidator(mesh, OPTIONS).namesPeers, false);
});

test("a mesh validator trusts the services of its own domains, whatever serviceTrustDomains is", () => {
  const mesh = { kind: "mesh", rootPems: [CA.rootPem], trustDomains: [TRUST_DOMAIN] } as const;
  const validator = createPeerValidator(mesh, { ...OPTIONS, serviceTrustDomains: [] });
  const peer = { presented: [], nowMs: NOW_MS, usage: "client" } as const;
  const web = assertTrusted(validator.judge({ ...peer, leaf: leafWith().certDer }));
  assert.equal(web.id?.service, "web");
  assert.equal(web.verified, true);
  assert.equal(web.name, URI);
  const { certDer } = leafWith({ extendedKeyUsage: ["2.5.29.37.0"] });
  const any = validator.judge({ ...peer, leaf: certDer });
  assertRefused(any, "identity_invalid", /lacks clientAuth/);
});

test("a ca validator refuses too many bytes and garbage, and never throws", () => {
  const presented = Array.from({ length: 100 }, () => new Uint8Array(10_000));
  assertRefused(judge(leafWith(), { presented }), "chain_untrusted", /more than 65536 bytes/);
  for (const leaf of [new Uint8Array(), Uint8Array.of(0x30, 0x80), new Uint8Array(20_000)]) {
    assertRefused(judge(leafWith(), { leaf }), "identity_invalid", /Cannot read certificate/);
  }
});

for (
  const [name, rootPems, rules, reason] of [
    ["neither CA nor pin", [], {}, /neither a trusted CA nor a pin/],
    ["names without a CA", [], { matchers: [NAMED] }, /no trusted CA/],
    [
      "names without a CA although there is a pin",
      [],
      { matchers: [NAMED], spkiPins: [spkiPin(CA.rootDer)] },
      /no trusted CA/,
    ],
    [
      "revocation lists without a CA",
      [],
      {
        spkiPins: [spkiPin(CA.rootDer)],
        crlPems: [mintCrlPem({ signer: CA.key.privateKey, thisUpdateMs: NOW_MS })],
      },
      /need a trusted CA/,
    ],
    ["an empty root", [""], {}, /no CERTIFICATE block/],
    ["an invalid root", [pemOf(Uint8Array.of(0x30, 0))], {}, /Cannot use root certificate/],
    [
      "a broken list",
      [CA.rootPem],
      { crlPems: [formatPem("X509 CRL", Uint8Array.of(1))] },
      /list 1/,
    ],
    ["a certificate as list", [CA.rootPem], { crlPems: [CA.rootPem] }, /no X509 CRL block/],
    ["a short pin", [CA.rootPem], { spkiPins: ["AAAA"] }, /"AAAA" is not a SHA-256 in base64/],
    ["a pin with colons", [CA.rootPem], { certificateHashes: ["00:11"] }, /lower-case hex/],
    ["a depth below 0", [CA.rootPem], { maxDepth: -1 }, /depth is -1/],
    ["a depth above 100", [CA.rootPem], { maxDepth: 101 }, /depth is 101/],
    ["an invalid IP address", [CA.rootPem], {
      matchers: [{ ...matcher("x"), type: "ip" }],
    }, /no address/],
  ] as const satisfies readonly (readonly [
    string,
    readonly string[],
    Partial<PeerRules>,
    RegExp,
  ])[]
) {
  test(`createPeerValidator() refuses ${name}`, () => {
    const validation: Validation = { kind: "ca", rootPems, rules: { ...NO_RULES, ...rules } };
    assert.throws(() => createPeerValidator(validation, OPTIONS), (error) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "credentials_invalid");
      assert.match(error.message, reason);
      return true;
    });
  });
}

test("createPeerValidator() accepts a store of 300 roots", () => {
  const others = Array.from({ length: 300 }, (_, index) => {
    const name = `root ${index}`;
    return pemOf(mintCertificate({
      publicKey: KEY.publicKey,
      signer: KEY.privateKey,
      subject: name,
      issuer: name,
      notBeforeMs: NOW_MS - HOUR_MS,
      notAfterMs: NOW_MS + HOUR_MS,
      ca: {},
    }));
  });
  assertTrusted(judge(leafWith(), { roots: [...others, CA.rootPem] }));
});
