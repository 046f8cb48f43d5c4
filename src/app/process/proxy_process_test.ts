import assert from "node:assert/strict";
import { test } from "node:test";
import { ProxyError } from "../../base/mod.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { INBOUND, processRig as rig, SNAPSHOT } from "../../../test/kit/engine/proxy_process.ts";
import type { ProxyControl } from "./control.ts";

test("ProxyProcess opens, serves, gets ready, drains and closes its parts in order", async () => {
  const { proxy, source, waits, take } = rig();
  waits.leave = Promise.withResolvers();
  const ended = proxy.run();
  await settle();
  assert.deepEqual(take(), ["admin opened", "source started"]);
  waits.apply.resolve();
  source.publish(SNAPSHOT);
  await settle();
  assert.deepEqual(take(), [
    "apply",
    "ready first",
    'log: ready {"proxy":"web-proxy","service":"web"}',
    "READY=1 STATUS=serving web",
  ]);
  proxy.stop();
  await settle();
  assert.deepEqual(take(), [
    "STOPPING=1 STATUS=draining",
    'log: stopping {"connections":3,"drain_timeout_ms":5000}',
    "drain 5000",
  ]);
  assert.deepEqual((await proxy.readiness.look()).notReady, ["draining"]);
  waits.drain.resolve();
  await settle();
  assert.deepEqual(take(), ["taken back", "plane closed", "source closed"]);
  waits.unregister.resolve();
  await settle();
  assert.deepEqual(take(), ["agent left"]);
  waits.leave.resolve();
  assert.equal(await ended, 0);
  assert.deepEqual(take(), ["agent closed", "admin closed", "log: stopped {}"]);
});

test("ProxyProcess returns to the source the snapshot that came into force", async () => {
  const { proxy, source, rollout, waits } = rig();
  const ended = proxy.run();
  await settle();
  waits.apply.resolve();
  assert.equal(await source.publish(SNAPSHOT), SNAPSHOT);
  rollout.refused = [{ what: "snapshot", reason: "a bad chain" }];
  assert.equal(await source.publish({ ...SNAPSHOT, version: SNAPSHOT.version + 1 }), undefined);
  proxy.stop();
  proxy.hurry();
  assert.equal(await ended, 0);
});

test("ProxyProcess that is stopped before its control is found leaves the agent", async () => {
  const found = Promise.withResolvers<ProxyControl>();
  const { proxy, take, found: control, waits } = rig({ findControl: () => found.promise });
  waits.leave = Promise.withResolvers();
  const ended = proxy.run();
  proxy.stop();
  await settle();
  found.resolve(control);
  await settle();
  assert.deepEqual(take(), ["agent left"]);
  waits.leave.resolve();
  assert.equal(await ended, 0);
});

test("ProxyProcess that is stopped while the agent does not answer ends and closes the admin server", async () => {
  let ended = false;
  const { proxy, take } = rig({
    async findControl({ onWaiting, signal }) {
      signal.addEventListener("abort", () => ended = true);
      await onWaiting(() => "the agent: connection refused");
      await onWaiting(() => "the agent: connection refused");
      return await new Promise((_, reject) => signal.addEventListener("abort", reject));
    },
  });
  const running = proxy.run();
  await settle();
  const reason = "waiting for the agent: connection refused";
  assert.deepEqual((await proxy.readiness.look()).notReady, [reason]);
  proxy.reload();
  proxy.stop();
  assert.equal(await running, 0);
  assert.equal(ended, true);
  assert.deepEqual(take(), [
    "admin opened",
    "log: reloading files {}",
    "admin closed",
    "log: stopped before Consul was reached {}",
  ]);
});

test("ProxyProcess.hurry() ends every wait", async () => {
  const { proxy, take } = rig();
  const ended = proxy.run();
  await settle();
  proxy.stop();
  await settle();
  take();
  proxy.hurry();
  assert.equal(await ended, 0);
  assert.deepEqual(take(), [
    "taken back",
    "plane closed",
    "source closed",
    "agent left",
    "agent closed",
    "admin closed",
    "log: stopped {}",
  ]);
});

test("ProxyProcess.run() rejects with the error of the start", async () => {
  const error = new ProxyError("listen_failed", "Cannot listen on -admin-bind");
  const { proxy } = rig({ openAdmin: () => Promise.reject(error) });
  await assert.rejects(proxy.run(), error);
});

test("ProxyProcess.drainListeners() before the start drains the plane at once", async () => {
  const { proxy, take } = rig();
  proxy.drainListeners();
  void proxy.run();
  await settle();
  assert.deepEqual(take(), ["drain 5000", "admin opened", "source started"]);
});

test("ProxyProcess reloads agent and source, and reports it when their snapshot is applied", async () => {
  const { proxy, source, waits, take } = rig();
  void proxy.run();
  await settle();
  source.publish(SNAPSHOT);
  await settle();
  take();
  const reloaded = proxy.reload();
  await settle();
  assert.deepEqual(take(), [
    "log: reloading files {}",
    "RELOADING=1 STATUS=reading files again",
    "agent reloaded",
    "source reloaded",
  ]);
  waits.apply.resolve();
  await settle();
  assert.deepEqual(take().slice(-2), ["log: files reloaded {}", "READY=1 STATUS=files read again"]);
  const { version: snapshotVersion } = SNAPSHOT;
  assert.deepEqual(await reloaded, { kind: "reloaded", snapshotVersion });
});

test("ProxyProcess.reload() returns the reason of a refusal", async () => {
  const { proxy, source, rollout, waits, found } = rig();
  assert.equal((await proxy.reload()).kind, "refused");
  void proxy.run();
  await settle();
  waits.apply.resolve();
  rollout.refused = [{ what: "snapshot", reason: "no such plugin" }];
  source.publish(SNAPSHOT);
  assert.deepEqual(await proxy.reload(), {
    kind: "refused",
    reason: "snapshot: no such plugin",
  });
  Object.assign(found.source, {
    reload: () => Promise.resolve(false),
    refused: [{ what: "configuration file", reason: "no JSON" }],
  });
  assert.deepEqual(await proxy.reload(), {
    kind: "refused",
    reason: "configuration file: no JSON; snapshot: no such plugin",
  });
});

test("ProxyProcess reports a fetched certificate as available once the workers have it", async () => {
  const { proxy, source, waits, take, fetch } = rig();
  void proxy.run();
  await settle();
  source.publish(SNAPSHOT);
  let answer: boolean | undefined;
  void fetch().then((available) => answer = available);
  await settle();
  assert.ok(take().includes("fetched"));
  assert.equal(answer, undefined);
  waits.apply.resolve();
  await settle();
  assert.equal(answer, true);
});

test("ProxyProcess is not ready while its first snapshot is refused, with the reason", async () => {
  const { proxy, source, rollout, waits } = rig();
  void proxy.run();
  await settle();
  rollout.refused = [{ what: "snapshot", reason: "bad key" }];
  waits.apply.resolve();
  source.publish(SNAPSHOT);
  await settle();
  assert.deepEqual((await proxy.readiness.look()).notReady, [
    "waiting for a snapshot that can be used: bad key",
  ]);
  assert.equal(proxy.snapshot, undefined);
  rollout.refused = [];
  source.publish(SNAPSHOT);
  await settle();
  assert.deepEqual((await proxy.readiness.look()).notReady, []);
  assert.equal(proxy.snapshot, SNAPSHOT);
});

test("ProxyProcess is not ready until a listener whose secrets have come is bound", async () => {
  const { proxy, source, seen, waits } = rig();
  const ended = proxy.run();
  await settle();
  seen.listeners = [];
  seen.warming = ["inbound"];
  waits.apply.resolve();
  source.publish({ ...SNAPSHOT, inbound: {} });
  await settle();
  waits.apply = Promise.withResolvers();
  seen.warming = [];
  source.publish(SNAPSHOT);
  assert.deepEqual((await proxy.readiness.look()).notReady, ["listener inbound is not bound yet"]);
  seen.listeners = [INBOUND];
  waits.apply.resolve();
  await settle();
  assert.deepEqual((await proxy.readiness.look()).notReady, []);
  proxy.stop();
  waits.drain.resolve();
  waits.unregister.resolve();
  await ended;
});
