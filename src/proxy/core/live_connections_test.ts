import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { snapshotOf, targetOf } from "../../../test/kit/engine/snapshots.ts";
import type { UpstreamPart } from "../../snapshot/mod.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });

const web = (upstream: Partial<UpstreamPart>) =>
  startMemoryPath(snapshotOf({
    ca: CA,
    service: "web",
    upstreams: [{ name: "db", ...upstream }],
    targets: [targetOf({ name: "db", uris: [DB.uri], ports: [1] })],
  }));

async function open({ engine, port }: MemoryPath) {
  const caller = engine.call(port("db"));
  const server = engine.lastDial.connect(presented(DB));
  await settle();
  return { caller, server };
}

test("a connection ends at the first sweep after its idle timeout, whichever side sent last", async () => {
  await using path = await web({ idleTimeoutMs: 10_000 });
  const { caller, server } = await open(path);
  for (const side of [caller, server]) {
    await path.clock.advance(9_500);
    side.send("still");
    await settle();
  }
  await path.clock.advance(10_000);
  assert.equal(caller.over, "no");
  await path.clock.advance(1_000);
  assert.deepEqual([caller.over, server.over], ["end", "end"]);
  assert.equal(path.lastEnd.code, "idle_timed_out");
  assert.equal(path.lastEnd.reason, "no byte for 10000 ms");
  assert.equal(path.lastEnd.ended_by, "proxy");
});

test("a connection ends at its maximum lifetime, active or not", async () => {
  await using path = await web({ lifetimeMs: 10_000 });
  const { caller } = await open(path);
  for (let count = 0; count < 9; count++) {
    await path.clock.advance(1_000);
    caller.send("still");
  }
  assert.equal(caller.over, "no");
  await path.clock.advance(1_000);
  assert.equal(caller.over, "end");
  assert.deepEqual(path.endings, ["lifetime_ended"]);
});

test("a connection without limits stays, and is swept while it is open", async () => {
  await using path = await web({});
  const timers = path.clock.pending;
  const { caller, server } = await open(path);
  await path.clock.advance(5_000);
  assert.equal(path.path.view({ connections: true }).connections[0]?.idleMs, 5_000);
  caller.connection.close();
  server.connection.close();
  await path.clock.advance(2_000);
  assert.equal(path.clock.pending, timers);
});

test("the first connection after all others ended is swept like any other", async () => {
  await using path = await web({ lifetimeMs: 3_000 });
  for (let count = 0; count < 2; count++) {
    const { caller } = await open(path);
    await path.clock.advance(5_000);
    assert.equal(caller.over, "end");
  }
});

test("a side that does not read its end is reset after half a second", async () => {
  await using path = await web({ lifetimeMs: 1_000 });
  const { caller, server } = await open(path);
  server.connection.pause();
  caller.send("x".repeat(100_000));
  caller.connection.pause();
  server.send("x".repeat(200_000));
  await path.clock.advance(1_000);
  assert.deepEqual([caller.over, server.over], ["no", "no"]);
  await path.clock.advance(700);
  assert.deepEqual([caller.over, server.over], ["reset", "reset"]);
});

test("bytes for a side that does not read stay for the idle timeout after the other side left", async () => {
  await using path = await web({ idleTimeoutMs: 10_000 });
  const { caller, server } = await open(path);
  caller.connection.pause();
  server.send("x".repeat(200_000));
  server.connection.close();
  await path.clock.advance(9_000);
  assert.equal(caller.over, "no");
  await path.clock.advance(3_000);
  assert.equal(caller.over, "reset");
  assert.deepEqual(path.endings, ["idle_timed_out"]);
});

test("bytes of an open connection are counted once a second, and those that wait", async () => {
  await using path = await web({});
  const { caller, server } = await open(path);
  const counted = () => {
    const { samples } = path.path.view({ connections: false });
    const names = ["received_bytes_total", "sent_bytes_total", "received_bytes_waiting"];
    return [...names, "upstream_sent_bytes_total", "upstream_received_bytes_total"].map((name) =>
      samples.find((sample) => sample.name === name)?.value
    );
  };
  server.connection.pause();
  caller.send("x".repeat(100_000));
  server.send("four");
  await settle();
  assert.deepEqual(counted(), [0, 0, 0, 0, 0]);
  await path.clock.advance(1_000);
  const [received = 0, sent, waiting = 0, ...upstream] = counted();
  assert.ok(received > 0 && waiting > 0 && waiting <= received, `${received} ${waiting}`);
  assert.equal(sent, 4);
  assert.deepEqual(upstream, [received, 4]);
  server.connection.reset();
  await settle();
  assert.deepEqual(counted(), [received, 4, 0, received, 4]);
});

test("the delay of a sweep is measured while there are connections", async () => {
  await using path = await web({});
  const lag = () =>
    path.path.view({ connections: false }).samples.find(({ name }) =>
      name === "worker_loop_lag_ms"
    );
  await path.clock.advance(5_000);
  assert.equal(lag()?.counts?.reduce((sum, count) => sum + count), 0);
  await open(path);
  await path.clock.advance(3_000);
  assert.equal(lag()?.counts?.[0], 3);
  assert.equal(lag()?.value, 0);
});

test("drain waits for the last connection, then ends what is left", async () => {
  await using path = await web({});
  const { caller, server } = await open(path);
  const left = await open(path);
  let drained = false;
  const draining = path.path.drain(60_000).then(() => drained = true);
  caller.connection.close();
  server.connection.close();
  await path.clock.advance(59_000);
  assert.equal(drained, false);
  await path.clock.advance(2_000);
  await draining;
  assert.equal(left.caller.over, "end");
  assert.deepEqual(path.endings, ["completed", "drained"]);
});
