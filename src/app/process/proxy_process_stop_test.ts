import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import type { RegisterSignals } from "../../consul/mod.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { processRig as rig, SNAPSHOT } from "../../../test/kit/engine/proxy_process.ts";
import type { ProxyProcess } from "./proxy_process.ts";

for (
  const [name, drainInbound, end, tookMs] of [
    ["for its grace period", true, () => {}, 30_000],
    ["for it without a drain of inbound", false, () => {}, 30_000],
    ["until it is hurried", true, (proxy) => proxy.hurry(), 0],
  ] as readonly (readonly [string, boolean, (proxy: ProxyProcess) => void, number])[]
) {
  test(`ProxyProcess with a grace period waits ${name}, then drains at once`, async () => {
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

test("ProxyProcess serves new callers for the settle time after Consul marks it as leaving, then drains", async () => {
  const { proxy, source, waits, take, clock, found } = rig({ settleMs: 2_000 });
  let left = () => {};
  Object.assign(found, {
    keepRegistered: ({ draining, onLeft }: RegisterSignals) =>
      new Promise<void>(() => draining?.addEventListener("abort", () => left = onLeft ?? left)),
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
  // Load balancers that probe readiness send no new callers.
  assert.deepEqual((await proxy.readiness.look()).notReady, ["draining"]);
  await clock.advance(500);
  left();
  await clock.advance(1_999);
  assert.deepEqual(take(), []);
  await clock.advance(1);
  // The rest of the stop timeout.
  const stopping = 'log: stopping {"connections":3,"drain_timeout_ms":2500}';
  assert.deepEqual(take(), [stopping, "drain 2500"]);
});

test("ProxyProcess settles for at most twice the settle time when Consul does not answer", async () => {
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
    ["without inbound listeners", { snapshot: { ...SNAPSHOT, inbound: {} } }],
    ["without an agent", { agent: undefined }],
    ["and hurried", { hurried: true }],
    ["after drainListeners()", { drained: true }],
  ] as const
) {
  test(`ProxyProcess ${name} drains at once`, async () => {
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

test("ProxyProcess that can never serve drains without a grace period and ends with 1", async () => {
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
