import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { FakeTlsEngine } from "../../../test/kit/engine/fake_tls_engine.ts";
import {
  caValidation,
  certificatePart,
  withOwn,
} from "../../../test/kit/secrets/own_credentials.ts";
import { policyOf, snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../../secrets/mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { ClientHello } from "../../wire/mod.ts";
import { type FetchCertificate, TrustContexts } from "./trust_contexts.ts";

const CA = createAuthority();
const OTHER = createAuthority({ trustDomain: "other.test" });
const MESH = snapshotOf({ ca: CA, service: "web" });
const WEB = CA.issueLeaf({ service: "web" });
const FILES = withOwn(MESH, "inbound", {
  certificates: { web: certificatePart(WEB) },
  validation: caValidation([CA]),
});
const STRANGERS = withOwn(FILES, "inbound", {
  certificates: FILES.certificates,
  validation: caValidation([OTHER]),
});

function world(...snapshots: readonly Snapshot[]) {
  const engine = new FakeTlsEngine();
  const fetched: Parameters<FetchCertificate>[0][] = [];
  const trusts = new TrustContexts({
    engine: engine.engine,
    now: () => Date.now(),
    fetchCertificate: (request) => {
      fetched.push(request);
      return Promise.resolve(true);
    },
  });
  const results = snapshots.map((each) => trusts.take(trusts.prepare(each)));
  return { trusts, engine, fetched, results };
}

for (
  const [name, first, second, want] of [
    ["nothing that concerns them", FILES, { ...FILES, policy: policyOf([]), version: 9 }, false],
    ["another certificate", FILES, {
      ...FILES,
      certificates: { web: certificatePart(CA.issueLeaf({ service: "web" })) },
    }, false],
    ["other roots", FILES, STRANGERS, true],
    ["credentials that are new", MESH, FILES, true],
    ["credentials that are gone", FILES, MESH, true],
    ["the mesh's own gone", MESH, { ...MESH, credentials: null }, true],
    ["a rotation of the mesh's own", MESH, {
      ...MESH,
      credentials: { ...MESH.credentials, version: 999_999 },
    }, true],
  ] as const
) {
  test(`Trusts.take() with ${name}: ${want ? "may judge otherwise" : "judges as before"}`, () => {
    assert.equal(world(first, second).results[1], want);
  });
}

test("Trusts.of() has the credentials of the last snapshot and no others", () => {
  const { trusts } = world(FILES);
  const [own, mesh] = [trusts.of("inbound"), trusts.of(null)];
  assert.ok(own && mesh);
  trusts.take(trusts.prepare({ ...FILES, version: 9 }));
  assert.equal(trusts.of("inbound"), own);
  trusts.take(trusts.prepare(STRANGERS));
  assert.notEqual(trusts.of("inbound"), own);
  assert.equal(trusts.of(null), mesh);
  trusts.take(trusts.prepare(MESH));
  assert.equal(trusts.of("inbound"), undefined);
  assert.equal(trusts.of("other"), undefined);
});

const UNREADABLE = caValidation([{ rootPem: "no certificate" }]);

for (
  const [name, snapshot, reason] of [
    [
      "whose roots cannot be read",
      withOwn(FILES, "inbound", {
        certificates: FILES.certificates,
        validation: UNREADABLE,
      }),
      /Cannot use the credentials of inbound: .*root/,
    ],
    ["that the TLS library refuses", {
      ...FILES,
      credentials: { ...MESH.credentials, version: 999_999, keyPem: "refused" },
    }, /Cannot use the credentials of the mesh: refused$/],
  ] as const
) {
  test(`Trusts.prepare() refuses a snapshot ${name}; credentials in force stay`, () => {
    const { trusts } = world(FILES);
    const [own, mesh] = [trusts.of("inbound"), trusts.of(null)];
    assert.throws(() => trusts.prepare(snapshot), reason);
    assert.deepEqual([trusts.of("inbound"), trusts.of(null)], [own, mesh]);
  });
}

test("Trusts.prepare() does not change credentials in force or their settings", () => {
  const { trusts, engine } = world(FILES);
  const server = trusts.of("inbound")?.server("");
  const other = certificatePart(CA.issueLeaf({ service: "web" }));
  const next = { ...FILES, certificates: { web: other } };
  trusts.prepare(next);
  assert.equal(trusts.of("inbound")?.server(""), server);
  trusts.take(trusts.prepare(next));
  assert.notEqual(trusts.of("inbound")?.server(""), server);
  assert.equal(engine.servers.length, 2);
});

test("Trusts fetches a certificate for the listener that needs it", async () => {
  const onDemand = { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example"] };
  const { trusts, fetched } = world(withOwn(MESH, "inbound", { own: { onDemand } }));
  const server = trusts.of("inbound")?.server("127.0.0.1:4000");
  assert.ok(server?.kind === "chooser");
  const hello = { serverName: "a.example", signatureAlgorithms: [] } as unknown as ClientHello;
  const chosen = server.choose(hello);
  const part = certificatePart(WEB, { name: "a.example" });
  trusts.take(trusts.prepare(
    withOwn(MESH, "inbound", { certificates: { "sds a.example": part }, own: { onDemand } }),
  ));
  assert.ok(await chosen, "what came is looked for where it came to");
  assert.deepEqual(fetched, [
    { credentials: "inbound", name: "a.example", remote: "127.0.0.1:4000" },
  ]);
});

for (
  const [name, lifeMs, fault, overrides] of [
    ["is empty while one is valid", [-1, 60_000], /^$/, {}],
    ["says that the only one has expired", [-1], /^our own certificate expired at 20/, {}],
    ["says that all have expired", [-2, -1], /^the last of our own certificates expired at 20/, {}],
    ["names missing secrets", [60_000], /are missing: roots/, { missing: ["roots"] }],
    ["is empty for on-demand certificates", [-1], /^$/, { onDemand: DEFAULT_ON_DEMAND_RULES }],
  ] as const
) {
  test(`Trusts.fault() ${name}`, () => {
    const certificates = Object.fromEntries(lifeMs.map((leftMs, index) => [
      `web${index}`,
      certificatePart(WEB, { notAfterMs: Date.now() + leftMs }),
    ]));
    const { trusts } = world(withOwn(MESH, "inbound", { certificates, own: overrides }));
    assert.match(trusts.fault("inbound"), fault);
    assert.equal(trusts.fault(null), "");
    assert.equal(trusts.fault("other"), "no certificate yet");
  });
}
