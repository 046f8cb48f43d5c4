import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import type { RegisterSignals } from "../../consul/mod.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { processRig as rig, SNAPSHOT } from "../../../test/kit/engine/proxy_process.ts";
import type { ProxyProcess } from "./proxy_process.ts";

for (
  const [name, drainInbound, end, tookMs] of [
    ["its grace period out", true, () => {}, 30_000],
    ["it out, with no word to callers", false, () => {}, 30_000],
    ["not for whoever hurries it", true, (proxy) => proxy.hurry(), 0],
  ] as readonly (readonly [string, boolean, (proxy: ProxyProcess) => void, number])[]
) {
  test(`ProxyProcess that stands in for another waits ${name}, then drains at once`, async () => {
    const { proxy, source, waits, take, clock } = rig({ grace: { ms: 30_000, drainInbound } });
    const ended = proxy.run();
    await settle();
    waits.apply.resolve();
    source.publish(SNAPSHOT);
    await settle();
    take();
    proxy.stop();
    await settle();
    const inbound = drainInbound ? ["drain inbound"] : [];
    assert.deepEqual(take(), [
      "STOPPING=1 STATUS=draining",
      `log: grace period begins {"ms":30000,"drain_inbound":${drainInbound}}`,
      ...inbound,
    ]);
    assert.deepEqual((await proxy.readiness.look()).notReady, []);
    end(proxy);
    if (tookMs > 0) {
      await clock.advance(tookMs - 1);
      assert.deepEqual(take(), []);
      await clock.advance(1);
    }
    await settle();
    assert.deepEqual(take().slice(0, 2), [
      'log: stopping {"connections":3,"drain_timeout_ms":0}',
      "drain 0",
    ]);
    waits.drain.resolve();
    waits.unregister.resolve();
    assert.equal(await ended, 0);
  });
}

test("ProxyProcess serves new callers until they have heard that it leaves, then drains", async () => {
  const { proxy, source, waits, take, clock, found } = rig({ settleMs: 2_000 });
  let told = () => {};
  Object.assign(found, {
    keepRegistered: ({ draining, onLeft }: RegisterSignals) =>
      new Promise<void>(() => draining?.addEventListener("abort", () => told = onLeft ?? told)),
  });
  void proxy.run();
  await settle();
  waits.apply.resolve();
  source.publish(SNAPSHOT);
  await settle();
  take();
  proxy.stop();
  await settle();
  assert.deepEqual(take(), ["STOPPING=1 STATUS=draining", 'log: settling {"ms":2000}']);
  // Who looks at that does not send it anybody any more.
  assert.deepEqual((await proxy.readiness.look()).notReady, ["draining"]);
  await clock.advance(500);
  told();
  await clock.advance(1_999);
  assert.deepEqual(take(), []);
  await clock.advance(1);
  // What is left of the time for all of it.
  const stopping = 'log: stopping {"connections":3,"drain_timeout_ms":2500}';
  assert.deepEqual(take(), [stopping, "drain 2500"]);
});

test("ProxyProcess settles twice its time at most where Consul cannot be told", async () => {
  const { proxy, source, waits, take, clock, found } = rig({ settleMs: 1_000 });
  Object.assign(found, { keepRegistered: () => new Promise<void>(() => {}) });
  void proxy.run();
  await settle();
  waits.apply.resolve();
  source.publish(SNAPSHOT);
  await settle();
  proxy.stop();
  await settle();
  take();
  await clock.advance(1_999);
  assert.deepEqual(take(), []);
  await clock.advance(1);
  assert.deepEqual(take().at(-1), "drain 3000");
});

for (
  const [name, change] of [
    ["by upstreams alone", { snapshot: { ...SNAPSHOT, inbound: {} } }],
    ["by callers that Consul tells nothing", { agent: undefined }],
    ["and is hurried", { hurried: true }],
    ["and was drained before", { drained: true }],
  ] as const
) {
  test(`ProxyProcess that is used ${name} drains at once`, async () => {
    const { proxy, source, waits, take, found } = rig({ settleMs: 2_000 });
    if ("agent" in change) Object.assign(found, { agent: undefined });
    void proxy.run();
    await settle();
    waits.apply.resolve();
    source.publish("snapshot" in change ? change.snapshot : SNAPSHOT);
    await settle();
    if ("drained" in change) proxy.drainListeners();
    take();
    proxy.stop();
    if ("hurried" in change) proxy.hurry();
    await settle();
    assert.ok(take().some((line) => line.startsWith("drain ")));
  });
}

test("ProxyProcess whose grace period is cut short by /quitquitquit settles and drains", async () => {
  const { proxy, source, waits, take, clock, found } = rig({
    settleMs: 2_000,
    grace: { ms: 30_000, drainInbound: false },
  });
  Object.assign(found, { keepRegistered: () => Promise.resolve() });
  void proxy.run();
  await settle();
  waits.apply.resolve();
  source.publish(SNAPSHOT);
  await settle();
  proxy.stop({ grace: false });
  await settle();
  assert.ok(take().includes('log: settling {"ms":2000}'));
  await clock.advance(2_000);
  assert.deepEqual(take().at(-1), "drain 3000");
});

test("ProxyProcess that can never serve drains and ends with 1, with no grace", async () => {
  const grace = { ms: 30_000, drainInbound: false };
  const { proxy, source, waits, take } = rig({ grace });
  waits.drain.resolve();
  waits.unregister.resolve();
  const ended = proxy.run();
  await settle();
  source.fail(new ProxyError("config_invalid", "no such listener"));
  assert.equal(await ended, 1);
  assert.ok(take().includes('log: cannot serve {"error":"no such listener"}'));
});
