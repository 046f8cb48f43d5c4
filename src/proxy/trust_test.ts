import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certificates.ts";
import { FakeTlsEngine, type MadeServer, presented } from "../../test/kit/fake_tls_engine.ts";
import {
  caValidation,
  certificatePart,
  type OwnPlace,
  withOwn,
} from "../../test/kit/own_credentials.ts";
import { snapshotOf } from "../../test/kit/snapshots.ts";
import type { PeerRules } from "../identity/mod.ts";
import type { ServerTls } from "../net/mod.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../secrets/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import type { ClientHello } from "../wire/mod.ts";
import { Trust, type TrustOptions } from "./trust.ts";
import { trustMaterial } from "./trust_material.ts";

const CA = createAuthority();
const OTHER = createAuthority({ trustDomain: "other.test" });
const NOW_MS = Date.now();
const MESH = snapshotOf({ ca: CA, service: "web" });
const WEB = CA.issueLeaf({ service: "web" });
const STRANGER = OTHER.issueLeaf({ service: "web" });
const DAY_MS = 86_400_000;
const KEY = "inbound";

interface World {
  readonly engine: FakeTlsEngine;
  readonly options: TrustOptions;
  readonly wants: string[];
  current: Trust | undefined;
  /** Answers everybody who waits. */
  answer(come: boolean): void;
}

function world(): World {
  const engine = new FakeTlsEngine();
  const wants: string[] = [];
  const waiting: ((come: boolean) => void)[] = [];
  const made: World = {
    engine,
    wants,
    current: undefined,
    answer: (come) => waiting.splice(0).forEach((resolve) => resolve(come)),
    options: {
      engine: engine.engine,
      now: () => NOW_MS,
      want: (name) => {
        wants.push(name);
        return new Promise((resolve) => waiting.push(resolve));
      },
      current: () => made.current,
    },
  };
  return made;
}

function trustOf(
  snapshot: Snapshot,
  { key = KEY, in: place = world(), previous }: {
    readonly key?: string | null;
    readonly in?: World;
    readonly previous?: Trust;
  } = {},
): Trust {
  const material = trustMaterial(snapshot, key);
  assert.ok(material);
  return new Trust(material, place.options, previous);
}

const own = (place: OwnPlace = {}) => trustOf(withOwn(MESH, KEY, place));
const anybodyOf = (rules: Partial<PeerRules> = {}) => caValidation([CA], rules);
const dns = (value: string) => [
  { type: "dns" as const, matcher: { kind: "exact" as const, value, ignoreCase: false } },
];
const OPTIONAL = { requireClientCertificate: false };

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
    assert.equal(own(place).verify(peer, usage, NOW_MS).kind, want);
  });
}

test("Trust.verify() calls nobody verified who showed nothing", () => {
  for (const validation of [null, anybodyOf()]) {
    const verdict = own({ validation, own: OPTIONAL }).verify(presented(undefined), "client", 0);
    assert.ok(verdict.kind === "trusted");
    assert.deepEqual([verdict.verified, verdict.id, verdict.uri], [false, undefined, ""]);
  }
});

test("Trust.verify() knows services of its trust domains only", () => {
  const uri = WEB.uri;
  for (const [trustDomains, service] of [[[CA.trustDomain], "web"], [[], undefined]] as const) {
    const verdict = own({ validation: anybodyOf(), own: { trustDomains } })
      .verify(presented(WEB), "client", NOW_MS);
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
    ["what has not come", { own: { missing: ["web", "roots"] } }, /not come: web, roots/],
    ["a certificate that nobody has", {
      own: { certificates: ["file web"] },
    }, /not come: file web/],
    ["rules that nobody has", { own: { validation: "file roots" } }, /not come: file roots/],
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

const hello = (serverName?: string): ClientHello => ({
  serverName,
  signatureAlgorithms: [0x0403],
} as unknown as ClientHello);

type Chosen = ServerTls | undefined | Promise<ServerTls | undefined>;

function choose(trust: Trust, serverName?: string): Chosen {
  const server = trust.server("127.0.0.1:40000");
  return server.kind === "server" ? server : server.choose(hello(serverName));
}
const shownBy = (server: Chosen) => (server as MadeServer | undefined)?.material.certPem;

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

/** With one certificate `a.example` fetched already. */
function onDemand(rules: Partial<typeof DEFAULT_ON_DEMAND_RULES> = {}, defaultName?: string) {
  const place = world();
  const certificates = {
    "sds a.example": certificatePart(WEB, { name: "a.example", dnsNames: ["a.example"] }),
  };
  const part = {
    onDemand: { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example"], ...rules },
    defaultName: defaultName ?? null,
  };
  const snapshot = withOwn(MESH, KEY, { certificates, own: part });
  const trust = place.current = trustOf(snapshot, { in: place });
  return { place, snapshot, trust };
}

for (
  const [name, serverName] of [
    ["off the list", "a.test"],
    ["no DNS name", "a..example"],
    ["an address", "10.0.0.1"],
    ["too long", `${"a".repeat(250)}.example`],
    ["no name at all", undefined],
  ] as const
) {
  test(`Trust.server() on demand asks nobody for ${name}`, () => {
    const { place, trust } = onDemand();
    assert.equal(choose(trust, serverName), undefined);
    assert.deepEqual(place.wants, []);
  });
}

test("Trust.server() on demand shows what is there at once", () => {
  const { place, trust } = onDemand();
  assert.equal(shownBy(choose(trust, "a.example")), WEB.certPem);
  assert.deepEqual(place.wants, []);
});

test("Trust.server() on demand shows the default to who names nobody", () => {
  const { place, trust } = onDemand({}, "a.example");
  assert.equal(shownBy(choose(trust)), WEB.certPem);
  assert.deepEqual(place.wants, []);
});

test("Trust.server() on demand shows what came in the generation that then is in force", async () => {
  const { place, snapshot, trust } = onDemand();
  const chosen = choose(trust, "b.example");
  assert.deepEqual(place.wants, ["b.example"]);
  const fresh = CA.issueLeaf({ service: "b" });
  const part = certificatePart(fresh, { name: "b.example", dnsNames: ["b.example"] });
  const certificates = { ...snapshot.certificates, "sds b.example": part };
  place.current = trustOf(
    withOwn(snapshot, KEY, { certificates, own: { onDemand: DEFAULT_ON_DEMAND_RULES } }),
    { in: place, previous: trust },
  );
  place.answer(true);
  assert.equal(shownBy(await chosen), fresh.certPem);
});

test("Trust.server() on demand shows nothing where nothing came, or it has expired, or gone", async () => {
  const { place, snapshot, trust } = onDemand();
  const refused = choose(trust, "b.example");
  place.answer(false);
  assert.equal(await refused, undefined);
  const gone = choose(trust, "b.example");
  place.answer(true);
  assert.equal(await gone, undefined, "the generation in force has it not");
  const closed = choose(trust, "b.example");
  place.current = undefined;
  place.answer(true);
  assert.equal(await closed, undefined, "nothing is in force");
  const late = choose(trust, "b.example");
  const part = certificatePart(WEB, { name: "b.example", notAfterMs: NOW_MS - 1 });
  place.current = trustOf(
    withOwn(snapshot, KEY, {
      certificates: { "sds b.example": part },
      own: { onDemand: DEFAULT_ON_DEMAND_RULES },
    }),
    { in: place },
  );
  place.answer(true);
  assert.equal(await late, undefined, "it has expired");
});

test("Trust.server() on demand bounds the names that are waited for", async () => {
  const { place, trust } = onDemand({ maxPending: 2 });
  const waiting = [choose(trust, "b.example"), choose(trust, "c.example")];
  assert.equal(choose(trust, "d.example"), undefined);
  assert.deepEqual(place.wants, ["b.example", "c.example"]);
  place.answer(false);
  await Promise.all(waiting);
  assert.ok(choose(trust, "d.example") instanceof Promise, "there is room again");
});

test("Trust.server() on demand has room again after a question that failed", async () => {
  const place = world();
  const options = { ...place.options, want: () => Promise.reject(new Error("lost")) };
  const rules = { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example"], maxPending: 1 };
  const certificates = { "sds a.example": certificatePart(WEB, { name: "a.example" }) };
  const material = trustMaterial(
    withOwn(MESH, KEY, { certificates, own: { onDemand: rules } }),
    KEY,
  );
  assert.ok(material);
  const trust = new Trust(material, options);
  for (const name of ["b.example", "c.example", "d.example"]) {
    const chosen = choose(trust, name);
    assert.ok(chosen instanceof Promise, "it is asked for");
    await assert.rejects(chosen, /lost/);
  }
});

/** One generation after the other, of the same listener. */
function after(first: Snapshot, second: Snapshot, key: string | null = KEY) {
  const place = world();
  const before = trustOf(first, { key, in: place });
  const seen = choose(before);
  const next = trustOf(second, { key, in: place, previous: before });
  return { place, before, next, seen, otherwise: next.judgesOtherwise(before) };
}

const FILES = withOwn(MESH, KEY, {
  certificates: { web: certificatePart(WEB, { dnsNames: ["web.example"] }) },
  validation: anybodyOf(),
});
const ROTATED: Snapshot = {
  ...FILES,
  certificates: { web: certificatePart(CA.issueLeaf({ service: "web" })) },
};

test("a new Trust with another certificate keeps the judge, and no settings or tickets", () => {
  const { before, next, seen, otherwise } = after(FILES, ROTATED);
  assert.equal(otherwise, false);
  assert.notEqual(choose(next), seen);
  assert.notEqual(next.tickets, before.tickets);
});

test("a new Trust keeps the settings of a certificate that has not changed", () => {
  const more = withOwn(FILES, KEY, {
    certificates: {
      ...FILES.certificates,
      api: certificatePart(WEB, { dnsNames: ["api.example"] }),
    },
    own: { validation: `${KEY} validation` },
  });
  const { before, next, seen, otherwise } = after(FILES, more);
  assert.equal(otherwise, false);
  assert.equal(choose(next, "web.example"), seen);
  assert.notEqual(next.tickets, before.tickets);
});

const withRules = (rules: Partial<PeerRules>) => ({
  ...FILES,
  validations: withOwn(FILES, KEY, { validation: anybodyOf(rules) }).validations,
});
const withOwnPart = (part: object): Snapshot => ({
  ...FILES,
  ownCredentials: withOwn(FILES, KEY, {
    certificates: FILES.certificates,
    own: { validation: `${KEY} validation`, ...part },
  }).ownCredentials,
});
for (
  const [name, second, otherwise, sameSettings] of [
    [
      "other roots",
      withOwn(FILES, KEY, {
        certificates: FILES.certificates,
        validation: caValidation([OTHER]),
      }),
      true,
      false,
    ],
    ["another name", withRules({ matchers: dns("a.example") }), true, false],
    ["rules that have gone missing", withOwnPart({ validation: "gone" }), true, false],
    ["nobody asked any more", withOwnPart({ validation: null, ...OPTIONAL }), true, false],
    ["clients that may come without a certificate", withOwnPart(OPTIONAL), true, true],
    ["secrets that are missing", withOwnPart({ missing: ["x"] }), true, true],
    ["other trust domains", withOwnPart({ trustDomains: ["b.consul"] }), true, false],
    [
      "other TLS versions",
      withOwnPart({
        tls: { minVersion: "TLSv1.3", maxVersion: "TLSv1.3", cipherSuites: [] },
      }),
      false,
      false,
    ],
    ["the same rules in a new part", withOwnPart({ defaultName: "x" }), false, true],
  ] as const
) {
  test(`a new Trust with ${name} ${otherwise ? "judges peers again" : "judges nobody again"}`, () => {
    const result = after(FILES, second);
    assert.equal(result.otherwise, otherwise);
    assert.equal(choose(result.next) === result.seen, sameSettings);
  });
}

test("a new Trust after a rotation of the mesh's own judges by the new roots", () => {
  const { credentials } = MESH;
  const rotated: Snapshot = {
    ...MESH,
    credentials: { ...credentials, version: credentials.version + 1, rootPems: [OTHER.rootPem] },
  };
  const { next, otherwise, seen } = after(MESH, rotated, null);
  assert.equal(otherwise, true);
  assert.notEqual(choose(next), seen);
  assert.equal(next.verify(presented(WEB), "client", NOW_MS).kind, "untrusted");
});

test("a Trust dated in the future of its certificate is at fault", () => {
  assert.match(own().fault(NOW_MS + DAY_MS) ?? "", /expired/);
});
