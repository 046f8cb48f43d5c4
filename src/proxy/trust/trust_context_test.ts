import assert from "node:assert/strict";
import { test } from "node:test";
import { type MadeServer, presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import {
  caValidation,
  certificatePart,
  withOwn,
} from "../../../test/kit/secrets/own_credentials.ts";
import {
  anybodyOf,
  CA,
  choose,
  dns,
  KEY,
  MESH,
  NOW_MS,
  OPTIONAL,
  OTHER,
  own,
  shownBy,
  STRANGER,
  trustOf,
  WEB,
  world,
} from "../../../test/kit/engine/trusts.ts";

for (
  const [name, place, peer, usage, want] of [
    ["takes the mesh's own client", {}, presented(WEB), "client", "trusted"],
    ["takes no stranger by the mesh's rules", {}, presented(STRANGER), "client", "untrusted"],
    [
      "takes nobody whom the TLS library refused",
      {},
      presented(WEB, {
        accepted: false,
        reason: "bad",
      }),
      "client",
      "untrusted",
    ],
    [
      "takes a client of its own roots",
      {
        validation: caValidation([OTHER]),
      },
      presented(STRANGER),
      "client",
      "trusted",
    ],
    [
      "takes no client of the mesh's by other roots",
      {
        validation: caValidation([OTHER]),
      },
      presented(WEB),
      "client",
      "untrusted",
    ],
    [
      "takes nobody while the rules have not come",
      {
        validation: anybodyOf(),
        own: { missing: ["roots"] },
      },
      presented(WEB),
      "client",
      "untrusted",
    ],
    [
      "takes nobody anonymous while the rules have not come",
      {
        own: { validation: "gone", ...OPTIONAL },
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "takes nobody anonymous while its certificates have not come",
      {
        validation: null,
        own: { missing: ["web"], ...OPTIONAL },
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "takes a client anonymous that was not asked",
      {
        validation: null,
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "trusted",
    ],
    [
      "takes a client anonymous that may come so",
      {
        validation: anybodyOf(),
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "trusted",
    ],
    [
      "takes no bad certificate for none",
      {
        validation: anybodyOf(),
        own: OPTIONAL,
      },
      presented(STRANGER),
      "client",
      "untrusted",
    ],
    [
      "asks for a certificate where it is required",
      {
        validation: anybodyOf(),
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "asks for one where names are, whatever the plan says",
      {
        validation: anybodyOf({ matchers: dns("a.example") }),
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "asks for one where pins are, whatever the plan says",
      {
        validation: anybodyOf({ certificateHashes: ["00".repeat(32)] }),
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "takes no server without a certificate",
      {
        validation: anybodyOf(),
        own: OPTIONAL,
      },
      presented(undefined),
      "server",
      "untrusted",
    ],
    [
      "takes no server where there are no rules for servers",
      {
        validation: null,
        own: OPTIONAL,
      },
      presented(WEB),
      "server",
      "untrusted",
    ],
    [
      "takes a server of its own roots",
      {
        validation: caValidation([OTHER]),
      },
      presented(STRANGER),
      "server",
      "trusted",
    ],
  ] as const
) {
  test(`Trust.verify() ${name}`, () => {
    assert.equal(own(place).verify(peer, { usage, nowMs: NOW_MS }).kind, want);
  });
}

test("Trust.verify() calls nobody verified who showed nothing", () => {
  for (const validation of [null, anybodyOf()]) {
    const verdict = own({ validation, own: OPTIONAL }).verify(presented(undefined), {
      usage: "client",
      nowMs: 0,
    });
    assert.ok(verdict.kind === "trusted");
    assert.deepEqual([verdict.verified, verdict.id, verdict.uri], [false, undefined, ""]);
  }
});

test("Trust.verify() knows services of its trust domains only", () => {
  const uri = WEB.uri;
  for (const [trustDomains, service] of [[[CA.trustDomain], "web"], [[], undefined]] as const) {
    const verdict = own({ validation: anybodyOf(), own: { trustDomains } })
      .verify(presented(WEB), { usage: "client", nowMs: NOW_MS });
    assert.ok(verdict.kind === "trusted");
    assert.equal(verdict.id?.service, service);
    assert.equal(verdict.uri, uri);
  }
});

for (
  const [name, validation, want] of [
    ["the mesh's rules leave it to the target", undefined, false],
    ["roots alone leave it to the target", anybodyOf(), false],
    ["names say it", anybodyOf({ matchers: dns("a.example") }), true],
    [
      "pins say it",
      anybodyOf({ spkiPins: ["n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="] }),
      true,
    ],
  ] as const
) {
  test(`Trust.namesPeers: who may answer, ${name}`, () => {
    assert.equal(own(validation ? { validation } : {}).namesPeers, want);
  });
}

for (
  const [name, place, want] of [
    ["nothing against good ones", {}, undefined],
    ["what has not come", { own: { missing: ["web", "roots"] } }, /missing: web, roots/],
    ["a certificate that nobody has", {
      own: { certificates: ["file web"] },
    }, /missing: file web/],
    ["rules that nobody has", { own: { validation: "file roots" } }, /missing: file roots/],
    ["a certificate that expired", {
      certificates: { web: certificatePart(WEB, { notAfterMs: NOW_MS - 1 }) },
    }, /expired at/],
    ["nothing against one that lasts this millisecond", {
      certificates: { web: certificatePart(WEB, { notAfterMs: NOW_MS }) },
    }, undefined],
    ["nothing against several, which are chosen from", {
      certificates: {
        web: certificatePart(WEB, { notAfterMs: NOW_MS - 1 }),
        api: certificatePart(WEB),
      },
    }, undefined],
    ["nothing against none, as of upstreams", { own: { certificates: [] } }, undefined],
  ] as const
) {
  test(`Trust.fault() says ${name}`, () => {
    const fault = own(place).fault(NOW_MS);
    if (want) assert.match(fault ?? "", want);
    else assert.equal(fault, undefined);
  });
}

test("Trust.server() does not look at the ClientHello where nothing is to be chosen", () => {
  assert.equal(own().server("a").kind, "server");
  assert.equal(own({ certificates: { web: certificatePart(WEB) } }).server("a").kind, "server");
});

test("Trust.server() chooses of several by name, and never one that has expired", () => {
  const [a, b] = [CA.issueLeaf({ service: "a" }), CA.issueLeaf({ service: "b" })];
  const trust = own({
    certificates: {
      a: certificatePart(a, { dnsNames: ["a.example"] }),
      b: certificatePart(b, { dnsNames: ["b.example"], notAfterMs: NOW_MS - 1 }),
    },
  });
  assert.equal(shownBy(choose(trust, "a.example")), a.certPem);
  assert.equal(choose(trust, "b.example"), undefined, "no other in its place");
  const last = certificatePart(a, { dnsNames: ["a.example"], notAfterMs: NOW_MS });
  const ending = own({ certificates: { a: last } });
  assert.equal(shownBy(choose(ending, "a.example")), a.certPem, "both ends belong to its time");
  assert.equal(shownBy(choose(trust, "c.example")), a.certPem, "the first where no name fits");
});

for (
  const [name, place, want] of [
    ["has the mesh's clients checked by the library", {}, "checked"],
    ["has others shown", { validation: anybodyOf() }, "shown"],
    ["asks nobody", { validation: null, own: OPTIONAL }, "ignored"],
  ] as const
) {
  test(`Trust.server() ${name}`, () => {
    const { material } = choose(own(place)) as MadeServer;
    assert.equal(material.peerCheck, want);
    assert.deepEqual(material.rootPems, want === "ignored" ? [] : [CA.rootPem]);
  });
}

test("Trust.server() and client() speak the versions of their credentials", () => {
  const tls = { minVersion: "TLSv1.3", maxVersion: "TLSv1.3", cipherSuites: [] } as const;
  const place = world();
  const trust = trustOf(withOwn(MESH, KEY, { own: { tls } }), { in: place });
  choose(trust);
  trust.client("db");
  assert.equal(place.engine.servers[0]?.material.minVersion, "TLSv1.3");
  assert.equal(place.engine.clients[0]?.material.minVersion, "TLSv1.3");
});

test("Trust.client() is made once a name, and shows nothing where there is nothing", () => {
  const place = world();
  const snapshot = withOwn(MESH, KEY, { own: { certificates: [] }, validation: anybodyOf() });
  const trust = trustOf(snapshot, { in: place });
  assert.equal(trust.client("a"), trust.client("a"));
  assert.notEqual(trust.client("a"), trust.client("b"));
  assert.deepEqual(place.engine.clients.map(({ serverName }) => serverName), ["a", "b"]);
  assert.equal(place.engine.clients[0]?.material.certPem, "");
});

test("a Trust dated in the future of its certificate is at fault", () => {
  assert.match(own().fault(NOW_MS + 86_400_000) ?? "", /expired/);
});
