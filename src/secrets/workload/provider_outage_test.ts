import assert from "node:assert/strict";
import test from "node:test";
import { advanceUntil } from "../../../test/kit/secrets/followed_files.ts";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { graceEnds, setUpWorkload as setUp } from "../../../test/kit/secrets/workload_provider.ts";
import { svidOf } from "../../../test/kit/secrets/workload_server.ts";

const WEB = "spiffe://example.org/web";
const API = "spiffe://example.org/api";
const CA = createAuthority({ trustDomain: "example.org" });
const OTHER = createAuthority({ trustDomain: "other.test" });

test("WorkloadProvider withdraws an SVID that is absent, until it is back", async () => {
  await using set = await setUp();
  const [web, api] = [svidOf(CA, WEB), svidOf(CA, API)];
  set.server.sendSvids({ svids: [web, api] });
  const followed = set.follow("certificate", { id: API });
  const trust = set.follow("validation", { id: API });
  await followed.certificate();
  await trust.validation();
  set.server.sendSvids({ svids: [web] });
  await graceEnds(set);
  await followed.removed();
  await trust.removed();
  set.server.sendSvids({ svids: [web] });
  set.server.sendSvids({ svids: [web, api] });
  assert.deepEqual((await followed.certificate()).uris, [API]);
  await trust.validation();
});

test("WorkloadProvider reports once that an SVID never existed", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate", { hint: "none" });
  await followed.removed();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  set.server.sendSvids({ svids: [svidOf(CA, WEB), svidOf(CA, API, { hint: "none" })] });
  assert.deepEqual((await followed.certificate()).uris, [API]);
});

test("WorkloadProvider reads bundles from identities if the agent lacks the bundles method", async () => {
  await using set = await setUp();
  set.server.end("bundles", 12, "unknown method");
  set.server.sendSvids({
    svids: [svidOf(CA, WEB)],
    federated: { "spiffe://other.test": OTHER.rootDer },
  });
  for (let round = 0; round < 2; round++) {
    const { bundles } = await set.follow("validation").validation();
    assert.deepEqual({ ...bundles }, {
      "example.org": [CA.rootPem],
      "other.test": [OTHER.rootPem],
    });
  }
  assert.deepEqual(set.server.opened, { svids: 1, bundles: 1 });
});

test("WorkloadProvider keeps the last good secret when a message is bad", async () => {
  await using set = await setUp();
  const followed = set.follow("certificate");
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid] });
  await followed.certificate();
  const bad = new Uint8Array([0x0a, 0xff]);
  set.server.sendBytes("svids", bad);
  await followed.fault("rejected", /X509SVIDResponse/);
  set.server.sendBytes("svids", bad);
  set.server.sendSvids({ svids: [{ ...svid, key: svidOf(CA, WEB).key }] });
  await followed.fault("rejected", /does not belong/);
  // An equal valid message ends the fault.
  set.server.sendSvids({ svids: [svid] });
  await followed.recovered();
  assert.equal(set.server.opened.svids, 1);
});

test("WorkloadProvider waits while nothing is registered, and drops denied secrets", async () => {
  await using set = await setUp();
  set.server.end("svids", 7, "no identity issued");
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /no identity issued/);
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
  set.server.end("svids", 7, "no identity issued");
  await followed.fault("unreachable", /no identity issued/);
  await graceEnds(set);
  await followed.removed();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
});

test("WorkloadProvider keeps its secrets while the agent is away", async () => {
  await using set = await setUp();
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid] });
  const followed = set.follow("certificate");
  await followed.certificate();
  set.server.kill();
  await followed.fault("unreachable", /UNAVAILABLE|CANCELLED/);
  await set.server.start();
  const next = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [next] });
  await set.clock.advance(500);
  await followed.certificate();
});

test("WorkloadProvider finds a socket that appears late", async () => {
  await using set = await setUp();
  set.server.kill();
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /UNAVAILABLE/);
  await set.server.start();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
});

test("WorkloadProvider does not wait out its backoff when an agent restarts", async () => {
  await using set = await setUp();
  // After this status the next stream is due in half a minute.
  set.server.end("svids", 3, "no");
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /INVALID_ARGUMENT/);
  const failedMs = set.clock.monotonic();
  // At the first look the old agent's socket is there; the clock stands still during the look.
  await advanceUntil(set.clock, () => set.clock.monotonic() > failedMs + 2_000);
  set.server.kill();
  await set.server.start();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  // The clock advances from one look at the socket to the next, and ends before a slow connection is
  // given up.
  const endMs = set.clock.monotonic() + 5_000;
  while (set.server.opened.svids < 2 && set.clock.monotonic() < endMs) {
    await advanceUntil(set.clock, () => true);
    const { nextInMs = Infinity } = set.clock;
    await set.clock.advance(nextInMs <= 1_000 ? nextInMs : 0);
  }
  await set.server.opens("svids", 2);
  await followed.certificate();
  await set.provider.close();
});

test("WorkloadProvider opens the next stream at once after one ended well", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate");
  await followed.certificate();
  await set.clock.advance(2_000);
  set.server.hangUp("svids");
  await set.server.settles("svids", 0);
  while (set.server.opened.svids < 2) await set.clock.advance(0);
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  assert.deepEqual((await followed.certificate()).uris, [WEB]);
});

test("WorkloadProvider ends a stream that stays silent", async () => {
  await using set = await setUp();
  set.server.stall("svids");
  const followed = set.follow("certificate");
  await set.server.opens("svids", 1);
  // In steps, between which the agent answers the connection's pings.
  for (let step = 0; step < 600; step++) await set.clock.advance(100);
  await followed.fault("unreachable", /DEADLINE_EXCEEDED/);
});

test("new WorkloadProvider().close() ends every stream", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate");
  await followed.certificate();
  await set.provider.close();
  await set.server.settles("svids", 0);
  // The last timers are for a peer that does not close, or does not answer.
  await set.clock.advance(31_000);
  assert.equal(set.clock.pending, 0);
  assert.ok(followed.silent);
});

test("WorkloadProvider separates the secrets of different references in one message", async () => {
  await using set = await setUp();
  const good = svidOf(CA, WEB);
  const garbage = new Uint8Array([0x30, 0x01]);
  const [web, api, trust] = [
    set.follow("certificate"),
    set.follow("certificate", { id: API }),
    set.follow("validation", { id: WEB }),
  ];
  const bad = svidOf(CA, API, { chain: garbage });
  set.server.sendSvids({ svids: [good, bad], federated: { "spiffe://other.test": garbage } });
  await web.certificate();
  await api.fault("rejected", /spiffe:\/\/example.org\/api/);
  await trust.fault("rejected", /bundle of other.test/);
});

test("WorkloadProvider retries rarely after INVALID_ARGUMENT, and recovers", async () => {
  await using set = await setUp();
  set.server.end("svids", 3, "no");
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /INVALID_ARGUMENT: no/);
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(29_000);
  assert.equal(set.server.opened.svids, 1);
  await advanceUntil(set.clock, () => set.server.opened.svids === 2, 31_000);
  await followed.certificate();
});

test("WorkloadProvider reports an agent without X.509 identities, and retries on refresh()", async () => {
  await using set = await setUp();
  set.server.end("svids", 12, "unknown method");
  const followed = set.follow("certificate");
  await followed.fault("unreachable", /does not offer this/);
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(3_600_000);
  assert.equal(set.server.opened.svids, 1);
  followed.watch.refresh();
  await followed.certificate();
});

test("WorkloadProvider refuses a bundle and a revocation list that cannot be read", async () => {
  await using set = await setUp();
  const bundles = { "spiffe://example.org": CA.rootDer };
  const followed = set.follow("validation");
  set.server.sendBundles({ bundles });
  await followed.validation();
  set.server.sendBundles({ bundles, crls: [new Uint8Array([0x30, 0x01, 0x00])] });
  await followed.fault("rejected", /revocation list/);
  set.server.sendBundles({ bundles: { "spiffe://example.org": new Uint8Array([0x30, 0]) } });
  await followed.fault("rejected", /bundle of example.org/);
  set.server.sendBundles({ bundles });
  await followed.recovered();
});
