import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../test/kit/certificates.ts";
import { FakeTlsEngine, presented } from "../../test/kit/fake_tls_engine.ts";
import { caValidation, certificatePart, withOwn } from "../../test/kit/own_credentials.ts";
import { recordingLog } from "../../test/kit/secret_peers.ts";
import { policyOf, snapshotOf } from "../../test/kit/snapshots.ts";
import { DEFAULT_ON_DEMAND_RULES } from "../secrets/mod.ts";
import type { Snapshot } from "../snapshot/mod.ts";
import type { ClientHello } from "../wire/mod.ts";
import { type FetchCertificate, Trusts } from "./trusts.ts";

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
  const log = recordingLog();
  const fetched: Parameters<FetchCertificate>[0][] = [];
  const trusts = new Trusts({
    engine: new FakeTlsEngine().engine,
    log,
    now: () => Date.now(),
    fetchCertificate: (request) => {
      fetched.push(request);
      return Promise.resolve(true);
    },
  });
  return { trusts, log, fetched, results: snapshots.map((each) => trusts.update(each)) };
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
  test(`Trusts.update() with ${name}: ${want ? "may judge otherwise" : "judges as before"}`, () => {
    assert.equal(world(first, second).results[1], want);
  });
}

test("Trusts.of() has the credentials of the last snapshot and no others", () => {
  const { trusts } = world(FILES);
  const [own, mesh] = [trusts.of("inbound"), trusts.of(null)];
  assert.ok(own && mesh);
  trusts.update({ ...FILES, version: 9 });
  assert.equal(trusts.of("inbound"), own);
  trusts.update(STRANGERS);
  assert.notEqual(trusts.of("inbound"), own);
  assert.equal(trusts.of(null), mesh);
  trusts.update(MESH);
  assert.equal(trusts.of("inbound"), undefined);
  assert.equal(trusts.of("other"), undefined);
});

test("Trusts.update() keeps what is in force where new ones cannot be made, and says so", () => {
  const { trusts, log } = world(FILES);
  const own = trusts.of("inbound");
  trusts.update(
    withOwn(FILES, "inbound", {
      certificates: FILES.certificates,
      validation: caValidation([{ rootPem: "no certificate" }]),
    }),
  );
  assert.equal(trusts.of("inbound"), own);
  assert.deepEqual(log.lines.map(({ level }) => level), ["error"]);
});

test("Trusts.update() has nothing where the first ones cannot be made", () => {
  const validation = caValidation([{ rootPem: "no certificate" }]);
  const { trusts } = world(withOwn(MESH, "inbound", { validation }));
  assert.equal(trusts.of("inbound"), undefined);
  assert.equal(
    trusts.of(null)?.verify(presented(WEB), { usage: "client", nowMs: Date.now() }).kind,
    "trusted",
    "others are not touched",
  );
});

test("Trusts has a certificate fetched for the listener that was asked", async () => {
  const onDemand = { ...DEFAULT_ON_DEMAND_RULES, suffixes: [".example"] };
  const { trusts, fetched } = world(withOwn(MESH, "inbound", { own: { onDemand } }));
  const server = trusts.of("inbound")?.server("127.0.0.1:4000");
  assert.ok(server?.kind === "chooser");
  const hello = { serverName: "a.example", signatureAlgorithms: [] } as unknown as ClientHello;
  const chosen = server.choose(hello);
  const part = certificatePart(WEB, { name: "a.example" });
  trusts.update(
    withOwn(MESH, "inbound", { certificates: { "sds a.example": part }, own: { onDemand } }),
  );
  assert.ok(await chosen, "what came is looked for where it came to");
  assert.deepEqual(fetched, [
    { credentials: "inbound", name: "a.example", remote: "127.0.0.1:4000" },
  ]);
});

for (
  const [name, lifeMs, fault, overrides] of [
    ["says nothing while one is valid", [-1, 60_000], /^$/, {}],
    ["says that the only one has expired", [-1], /^our own certificate expired at 20/, {}],
    ["says that all have expired", [-2, -1], /^the last of our own certificates expired at 20/, {}],
    ["says what has not come", [60_000], /are missing: roots/, { missing: ["roots"] }],
    ["waits for what is fetched on demand", [-1], /^$/, { onDemand: DEFAULT_ON_DEMAND_RULES }],
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
