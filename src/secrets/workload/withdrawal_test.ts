import assert from "node:assert/strict";
import process from "node:process";
import test from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import {
  setUpWorkload as setUp,
  type WorkloadFixture,
} from "../../../test/kit/secrets/workload_provider.ts";
import { WITHDRAWAL_GRACE_MS } from "../model/plan.ts";
import { svidOf } from "../../../test/kit/secrets/workload_server.ts";

const WEB = "spiffe://example.org/web";
const CA = createAuthority({ trustDomain: "example.org" });
const deny = ({ server }: WorkloadFixture) => server.end("svids", 7, "no identity issued");

test("WorkloadProvider requests a withdrawn SVID again at once, and keeps it meanwhile", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate");
  const trust = set.follow("validation", { id: WEB });
  await followed.certificate();
  await trust.validation();
  for (let round = 0; round < 3; round++) {
    deny(set);
    await followed.fault("unreachable", /nothing is registered/);
    await trust.fault("unreachable", /nothing is registered/);
    set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
    await set.clock.advance(200);
    await followed.certificate();
    await trust.recovered();
    await set.clock.advance(3_000);
    assert.ok(followed.silent && trust.silent);
  }
});

test("WorkloadProvider drops a withdrawn SVID after the grace", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate");
  await followed.certificate();
  deny(set);
  await followed.fault("unreachable", /nothing is registered/);
  await set.clock.advance(WITHDRAWAL_GRACE_MS - 1);
  assert.ok(followed.silent);
  await set.clock.advance(1);
  await followed.removed();
});

test("WorkloadProvider gives one grace to an SVID that comes and goes", async () => {
  await using set = await setUp();
  const svid = svidOf(CA, WEB);
  set.server.sendSvids({ svids: [svid] });
  const followed = set.follow("certificate");
  await followed.certificate();
  const comesBack = async () => {
    set.server.sendSvids({ svids: [svid] });
    await set.clock.advance(500);
    return (await followed.next()).kind;
  };
  for (let round = 0; round < 3; round++) {
    deny(set);
    await followed.fault("unreachable", /nothing is registered/);
    assert.equal(await comesBack(), "recovered");
  }
  await set.clock.advance(500);
  deny(set);
  await followed.removed();
  assert.equal(await comesBack(), "secret");
  deny(set);
  await followed.removed();
  // Another SVID has a grace of its own.
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  await set.clock.advance(500);
  await followed.certificate();
  deny(set);
  await followed.fault("unreachable", /nothing is registered/);
});

test("WorkloadProvider keeps no SVID beyond its validity", async () => {
  await using set = await setUp();
  const notAfterMs = set.clock.now() + 60_000;
  set.server.sendSvids({ svids: [svidOf(CA, WEB, { overrides: { notAfterMs } })] });
  const followed = set.follow("certificate");
  const secret = await followed.certificate();
  await set.clock.advance(secret.notAfterMs - set.clock.now() - 500);
  deny(set);
  await followed.fault("unreachable", /nothing is registered/);
  await set.clock.advance(500);
  await followed.removed();
});

test("WorkloadProvider reports a denial before the first value", async () => {
  await using set = await setUp();
  deny(set);
  const source = { kind: "workload", address: set.server.address } as const;
  const reason = await new Promise<string>((resolve) => {
    set.provider.watch({ type: "certificate", name: "web", source, initialFetchTimeoutMs: 0 }, {
      onDenied: resolve,
      onSecret() {},
      onRejected() {},
      onRecovered() {},
      onUnreachable() {},
      onReached() {},
      onRemoved: () => assert.fail(),
    });
  });
  assert.match(reason, /nothing is registered/);
});

test("WorkloadProvider names the SVIDs that the agent offers instead", async () => {
  await using set = await setUp();
  set.server.sendSvids({
    svids: [
      svidOf(CA, WEB),
      ...Array.from({ length: 11 }, (_, i) => svidOf(CA, `${WEB}/${i}`, { hint: "internal" })),
    ],
  });
  const followed = set.follow("certificate", { id: "spiffe://example.org/wbe" });
  const reason = await followed.removed();
  assert.match(
    reason ?? "",
    /offers "spiffe:\/\/example.org\/web", .* with hint "internal", 2 more$/,
  );
});

test("WorkloadProvider drops an SVID without a grace at once", async () => {
  await using set = await setUp();
  set.server.sendSvids({ svids: [svidOf(CA, WEB)] });
  const followed = set.follow("certificate", { withdrawalGraceMs: 0 });
  await followed.certificate();
  deny(set);
  const who = `uid ${process.getuid?.()}, gid ${process.getgid?.()}, pid ${process.pid}`;
  const fact =
    `nothing is registered for this process: ${who} (PERMISSION_DENIED: no identity issued)`;
  assert.ok((await followed.removed())?.endsWith(fact));
});
