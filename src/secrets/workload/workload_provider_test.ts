import assert from "node:assert/strict";
import test from "node:test";
import type { Authority } from "../../../test/kit/certs/authority.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { Followed, setUpWorkload as setUp } from "../../../test/kit/secrets/workload_provider.ts";
import { svidOf } from "../../../test/kit/secrets/workload_server.ts";
import type { SecretRef } from "../model/plan.ts";

const WEB = "spiffe://example.org/web";
const API = "spiffe://example.org/api";
const CA = createAuthority({ trustDomain: "example.org" });
const OTHER = createAuthority({ trustDomain: "other.test" });

const pemsOf = (...authorities: Authority[]) => authorities.map(({ rootPem }) => rootPem);

test("WorkloadProvider reports the first SVID with its key", async () => {
  await using set = await setUp();
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid, svidOf(CA, API)] });
  const secret = await set.follow("certificate").certificate();
  assert.deepEqual(secret.uris, [WEB]);
  assert.equal(secret.keyKind, "ecdsa");
  assert.match(secret.keyPem, /^-----BEGIN PRIVATE KEY-----/);
  assert.equal(secret.certPem.match(/BEGIN CERTIFICATE/g)?.length, 1);
});

test("WorkloadProvider sends intermediates after the leaf", async () => {
  await using set = await setUp();
  const svid = svidOf(CA.intermediate(), WEB);
  set.server.sendSvids({ svids: [svid] });
  const secret = await set.follow("certificate").certificate();
  assert.deepEqual(secret.uris, [WEB]);
  assert.equal(secret.certPem.match(/BEGIN CERTIFICATE/g)?.length, 2);
});

for (
  const [name, choice, want] of [
    ["by id", { id: API }, API],
    ["by hint", { hint: "inner" }, API],
    ["by the first of equal hints", { hint: "twice" }, `${WEB}/2`],
    ["by id and hint", { id: `${WEB}/3`, hint: "twice" }, `${WEB}/3`],
    ["that comes first", {}, WEB],
  ] as const
) {
  test(`WorkloadProvider chooses the SVID ${name}`, async () => {
    await using set = await setUp();
    set.server.sendSvids({
      svids: [
        svidOf(CA, WEB),
        svidOf(CA, API, { hint: "inner" }),
        svidOf(CA, `${WEB}/2`, { hint: "twice" }),
        svidOf(CA, `${WEB}/3`, { hint: "twice" }),
      ],
    });
    assert.deepEqual((await set.follow("certificate", choice).certificate()).uris, [want]);
  });
}

test("WorkloadProvider follows a rotation, and reports no unchanged secret", async () => {
  await using set = await setUp();
  const [first, second] = [svidOf(CA, WEB), svidOf(CA, WEB)];
  const [api, later] = [svidOf(CA, API), svidOf(CA, API)];
  set.server.sendSvids({ svids: [first, api] });
  const [web, other] = [set.follow("certificate"), set.follow("certificate", { id: API })];
  const before = await web.certificate();
  await other.certificate();
  set.server.sendSvids({ svids: [second, api] });
  const after = await web.certificate();
  assert.notEqual(after.serial, before.serial);
  assert.notEqual(after.keyPem, before.keyPem);
  set.server.sendSvids({ svids: [second, later] });
  await other.certificate();
  assert.ok(web.silent);
});

test("WorkloadProvider shares one stream per method, and closes it with the last follower", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  set.server.sendBundles({ bundles: { "spiffe://example.org": CA.rootDer } });
  const all = [
    set.follow("certificate"),
    set.follow("certificate", { id: WEB }),
    set.follow("validation"),
    set.follow("validation", { id: WEB }),
  ];
  for (const followed of all) assert.equal((await followed.next()).kind, "secret");
  // A later follower gets the last message, without a stream of its own.
  const late = set.follow("certificate");
  assert.deepEqual((await late.certificate()).uris, [WEB]);
  assert.deepEqual(set.server.opened, { svids: 1, bundles: 1 });
  for (const followed of [...all, late]) followed.watch.close();
  await set.server.settles("svids", 0);
  await set.server.settles("bundles", 0);
  // A later follower gets the new secret.
  set.server.sendSvids({ svids: [svidOf(CA, API)] });
  assert.deepEqual((await set.follow("certificate").certificate()).uris, [API]);
});

test("WorkloadProvider reports each trust domain with its own bundle", async () => {
  await using set = await setUp();
  set.server.sendBundles({
    bundles: { "spiffe://example.org": CA.rootDer, "spiffe://other.test": OTHER.rootDer },
  });
  const followed = set.follow("validation");
  const both = await followed.validation();
  assert.deepEqual({ ...both.bundles }, {
    "example.org": pemsOf(CA),
    "other.test": pemsOf(OTHER),
  });
  const next = createAuthority({ trustDomain: "example.org" });
  set.server.sendBundles({
    bundles: { "spiffe://example.org": new Uint8Array([...CA.rootDer, ...next.rootDer]) },
  });
  const one = await followed.validation();
  assert.deepEqual({ ...one.bundles }, { "example.org": pemsOf(CA, next) });
  // No identity is needed to verify others.
  assert.equal(set.server.opened.svids, 0);
});

test("WorkloadProvider reports the chosen SVID's bundle and the federated ones", async () => {
  await using set = await setUp();
  const third = createAuthority({ trustDomain: "third.test" });
  set.server.sendSvids({
    svids: [svidOf(CA, WEB), svidOf(third, "spiffe://third.test/x", { hint: "third" })],
    federated: { "spiffe://other.test": OTHER.rootDer },
  });
  const { bundles } = await set.follow("validation", { hint: "third" }).validation();
  assert.deepEqual({ ...bundles }, { "other.test": pemsOf(OTHER), "third.test": pemsOf(third) });
  assert.equal(set.server.opened.bundles, 0);
});

test("WorkloadProvider merges bundles with the configuration's defaults", async () => {
  await using set = await setUp();
  set.server.sendBundles({ bundles: { "spiffe://example.org": CA.rootDer } });
  const matcher = { kind: "exact", value: WEB, ignoreCase: false } as const;
  const ref: SecretRef = {
    type: "validation",
    name: "trust",
    source: { kind: "workload", address: set.server.address },
    initialFetchTimeoutMs: 0,
    defaults: {
      type: "validation",
      systemRoots: false,
      rules: { ...NO_RULES, matchers: [{ type: "uri", matcher }] },
    },
  };
  const { rules } = await new Followed(set.provider, ref).validation();
  assert.deepEqual(rules.matchers, [{ type: "uri", matcher }]);
});
