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
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { PeerVerdicts, type TrustContext } from "./trust_context.ts";

for (
  const [name, place, peer, usage, want] of [
    ["trusts a client of the mesh", {}, presented(WEB), "client", "trusted"],
    [
      "does not trust an unknown client by the mesh's rules",
      {},
      presented(STRANGER),
      "client",
      "untrusted",
    ],
    [
      "does not trust a peer that the TLS library refused",
      {},
      presented(WEB, {
        accepted: false,
        reason: "bad",
      }),
      "client",
      "untrusted",
    ],
    [
      "trusts a client of its own roots",
      {
        validation: caValidation([OTHER]),
      },
      presented(STRANGER),
      "client",
      "trusted",
    ],
    [
      "does not trust a client of the mesh by other roots",
      {
        validation: caValidation([OTHER]),
      },
      presented(WEB),
      "client",
      "untrusted",
    ],
    [
      "trusts no peer while rules are missing",
      {
        validation: anybodyOf(),
        own: { missing: ["roots"] },
      },
      presented(WEB),
      "client",
      "untrusted",
    ],
    [
      "trusts no anonymous peer while rules are missing",
      {
        own: { validation: "gone", ...OPTIONAL },
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "trusts no anonymous peer while certificates are missing",
      {
        validation: null,
        own: { missing: ["web"], ...OPTIONAL },
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "trusts an anonymous client if no certificate is requested",
      {
        validation: null,
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "trusted",
    ],
    [
      "trusts an anonymous client if a certificate is optional",
      {
        validation: anybodyOf(),
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "trusted",
    ],
    [
      "does not treat a bad certificate as none",
      {
        validation: anybodyOf(),
        own: OPTIONAL,
      },
      presented(STRANGER),
      "client",
      "untrusted",
    ],
    [
      "requires a certificate if the configuration does",
      {
        validation: anybodyOf(),
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "requires a certificate if names are configured",
      {
        validation: anybodyOf({ matchers: dns("a.example") }),
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "requires a certificate if pins are configured",
      {
        validation: anybodyOf({ certificateHashes: ["00".repeat(32)] }),
        own: OPTIONAL,
      },
      presented(undefined),
      "client",
      "untrusted",
    ],
    [
      "does not trust a server without a certificate",
      {
        validation: anybodyOf(),
        own: OPTIONAL,
      },
      presented(undefined),
      "server",
      "untrusted",
    ],
    [
      "does not trust a server without rules for servers",
      {
        validation: null,
        own: OPTIONAL,
      },
      presented(WEB),
      "server",
      "untrusted",
    ],
    [
      "trusts a server of its own roots",
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

test("Trust.verify() does not call a peer without a certificate verified", () => {
  for (const validation of [null, anybodyOf()]) {
    const verdict = own({ validation, own: OPTIONAL }).verify(presented(undefined), {
      usage: "client",
      nowMs: 0,
    });
    assert.ok(verdict.kind === "trusted");
    assert.deepEqual([verdict.verified, verdict.id, verdict.uri], [false, undefined, ""]);
  }
});

test("Trust.verify() identifies services of its trust domains only", () => {
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
    ["names select the peer", anybodyOf({ matchers: dns("a.example") }), true],
    [
      "pins select the peer",
      anybodyOf({ spkiPins: ["n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="] }),
      true,
    ],
  ] as const
) {
  test(`Trust.namesPeers: ${name}`, () => {
    assert.equal(own(validation ? { validation } : {}).namesPeers, want);
  });
}

for (
  const [name, place, want] of [
    ["nothing for valid credentials", {}, undefined],
    ["which secrets are missing", { own: { missing: ["web", "roots"] } }, /missing: web, roots/],
    ["that a certificate is unknown", {
      own: { certificates: ["file web"] },
    }, /missing: file web/],
    ["that rules are unknown", { own: { validation: "file roots" } }, /missing: file roots/],
    ["that a certificate expired", {
      certificates: { web: certificatePart(WEB, { notAfterMs: NOW_MS - 1 }) },
    }, /expired at/],
    ["nothing for a certificate in its last millisecond", {
      certificates: { web: certificatePart(WEB, { notAfterMs: NOW_MS }) },
    }, undefined],
    ["nothing if one of several is valid", {
      certificates: {
        web: certificatePart(WEB, { notAfterMs: NOW_MS - 1 }),
        api: certificatePart(WEB),
      },
    }, undefined],
    ["nothing without certificates, as for upstreams", { own: { certificates: [] } }, undefined],
  ] as const
) {
  test(`Trust.fault() says ${name}`, () => {
    const fault = own(place).fault(NOW_MS);
    if (want) assert.match(fault ?? "", want);
    else assert.equal(fault, undefined);
  });
}

test("Trust.server() does not wait for the ClientHello with a single certificate", () => {
  assert.equal(own().server("a").kind, "server");
  assert.equal(own({ certificates: { web: certificatePart(WEB) } }).server("a").kind, "server");
});

test("Trust.server() selects a certificate by name, and never an expired one", () => {
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
  assert.equal(shownBy(choose(ending, "a.example")), a.certPem, "the last millisecond is valid");
  assert.equal(shownBy(choose(trust, "c.example")), a.certPem, "the first if no name matches");
});

for (
  const [name, place, want] of [
    ["has the library verify clients of the mesh", {}, "checked"],
    ["has the library show other clients", { validation: anybodyOf() }, "shown"],
    ["requests no certificate", { validation: null, own: OPTIONAL }, "ignored"],
  ] as const
) {
  test(`Trust.server() ${name}`, () => {
    const { material } = choose(own(place)) as MadeServer;
    assert.equal(material.peerCheck, want);
    assert.deepEqual(material.rootPems, want === "ignored" ? [] : [CA.rootPem]);
  });
}

test("Trust.server() and client() use the TLS versions of their credentials", () => {
  const tls = { minVersion: "TLSv1.3", maxVersion: "TLSv1.3", cipherSuites: [] } as const;
  const place = world();
  const trust = trustOf(withOwn(MESH, KEY, { own: { tls } }), { in: place });
  choose(trust);
  trust.client("db");
  assert.equal(place.engine.servers[0]?.material.minVersion, "TLSv1.3");
  assert.equal(place.engine.clients[0]?.material.minVersion, "TLSv1.3");
});

test("Trust.client() makes settings once for each name, without a certificate if there is none", () => {
  const place = world();
  const snapshot = withOwn(MESH, KEY, { own: { certificates: [] }, validation: anybodyOf() });
  const trust = trustOf(snapshot, { in: place });
  assert.equal(trust.client("a"), trust.client("a"));
  assert.notEqual(trust.client("a"), trust.client("b"));
  assert.deepEqual(place.engine.clients.map(({ serverName }) => serverName), ["a", "b"]);
  assert.equal(place.engine.clients[0]?.material.certPem, "");
});

test("Trust.fault() says that the certificate of the mesh expired", () => {
  assert.match(own().fault(NOW_MS + 86_400_000) ?? "", /expired/);
});

test("Presentation is verified for the time of the handshake, and later gives its age", async () => {
  const clock = new FakeClock({ startMs: 1_000_000 });
  await clock.advance(500);
  const calls: unknown[] = [];
  const trust = { verify: (_peer: unknown, at: unknown) => void calls.push(at) };
  const presentation = new PeerVerdicts(presented(undefined), "client", clock);
  await clock.advance(3_000);
  clock.jump(-60_000);
  presentation.judge(trust as unknown as TrustContext);
  presentation.judgeAgain(trust as unknown as TrustContext);
  const at = { usage: "client", nowMs: 1_000_500 };
  assert.deepEqual(calls, [at, { ...at, sinceMs: 3_000 }]);
});
