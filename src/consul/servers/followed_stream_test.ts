import { Buffer } from "node:buffer";
import assert from "node:assert/strict";
import test from "node:test";
import type { MemoryCall } from "../../../test/kit/consul/memory_servers.ts";
import { A, B, rootsOf, SessionRig } from "../../../test/kit/consul/session_rig.ts";
import { WATCH_ROOTS, WATCH_SERVERS } from "./methods.ts";

for (
  const [name, lose, withinMs] of [
    ["is killed", (rig: SessionRig) => rig.servers.get(A).kill(), 300],
    ["leaves", (rig: SessionRig) => rig.servers.get(A).leave(), 300],
    ["hangs", (rig: SessionRig) => rig.servers.get(A).hang(), 28_300],
  ] as const
) {
  test(`Servers moves every stream to another server when one ${name}`, async () => {
    using rig = new SessionRig();
    const one = rig.servers.add(A);
    const two = rig.servers.add(B);
    for (const server of [one, two]) {
      server.knows(A, B);
      server.answer(WATCH_ROOTS.path, rootsOf(server.host));
    }
    const session = rig.start();
    rig.follow(session);
    await rig.run(60_000);
    assert.deepEqual([rig.roots, rig.servers.dialled], [[A], [A]]);
    lose(rig);
    await rig.run(withinMs);
    assert.equal(session.status.moves, 1);
    assert.deepEqual([rig.moves, rig.roots], [[A, B], [A, B]]);
    assert.deepEqual(two.open().map(({ path }) => path).toSorted(), [
      WATCH_ROOTS.path,
      WATCH_SERVERS.path,
    ]);
    assert.deepEqual(rig.messages("info"), ["consul server in use", "consul server in use"]);
    assert.deepEqual(rig.messages("warn").slice(1), ["consul server left"]);
    // The proxy stays with the new server when the old one is back.
    one.state = "up";
    await rig.run(120_000);
    assert.equal(session.current?.host, B);
    assert.equal(rig.value("server_moves_total"), 1);
  });
}

test("Servers.follow() opens a stream with a new token before it ends the old one", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const session = rig.start();
  one.answer(WATCH_ROOTS.path, (call) => {
    if (call.token === "t1") rootsOf("old")(call);
  });
  rig.follow(session);
  await rig.run(1_000);
  rig.token.change("t2");
  await rig.run(1_000);
  const tokens = () => one.open(WATCH_ROOTS.path).map(({ token }) => token);
  assert.deepEqual(tokens(), ["t1", "t2"]);
  rootsOf("late")(one.open(WATCH_ROOTS.path)[0] as MemoryCall);
  await rig.run(10);
  rootsOf("new")(one.open(WATCH_ROOTS.path)[1] as MemoryCall);
  await rig.run(10);
  assert.deepEqual([tokens(), rig.roots], [["t2"], ["old", "late", "new"]]);
  const asked = one.calls.filter(({ path }) => path === WATCH_ROOTS.path);
  assert.deepEqual(
    asked.map(({ chunks }) => Buffer.concat(chunks).length),
    [5, 5],
    "one request on each stream",
  );
  assert.deepEqual(rig.errors, []);
});

test("Servers.follow() closes both streams of a token change when it is stopped", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(WATCH_ROOTS.path, (call) => call.token === "t1" && rootsOf("old")(call));
  const following = rig.follow(rig.start());
  await rig.run(1_000);
  rig.token.change("t2");
  await rig.run(1_000);
  assert.equal(one.open(WATCH_ROOTS.path).length, 2);
  following.stop();
  await rig.run(10);
  assert.deepEqual(one.open(WATCH_ROOTS.path), []);
});

test("Servers.follow() ignores the end of a stream that is being replaced", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(WATCH_ROOTS.path, (call) => call.token === "t1" && rootsOf("old")(call));
  rig.follow(rig.start());
  await rig.run(1_000);
  rig.token.change("t2");
  await rig.run(1_000);
  one.open(WATCH_ROOTS.path)[0]?.end(16, "ACL not found");
  await rig.run(1_000);
  assert.deepEqual([rig.errors, rig.token.rejections], [[], []]);
  assert.deepEqual(one.open(WATCH_ROOTS.path).map(({ token }) => token), ["t2"]);
  assert.equal(one.calls.filter(({ path }) => path === WATCH_ROOTS.path).length, 2);
});

test("Servers.follow() closes the old stream although the first stream with the new token failed", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  let refused = 0;
  one.answer(WATCH_ROOTS.path, (call) => {
    if (call.token === "t2" && refused++ === 0) call.end(13, "broken");
    else rootsOf(call.token)(call);
  });
  rig.follow(rig.start());
  await rig.run(1_000);
  rig.token.change("t2");
  await rig.run(2_000);
  assert.deepEqual([rig.roots, rig.errors.length], [["t1", "t2"], 1]);
  assert.deepEqual(one.open(WATCH_ROOTS.path).map(({ token }) => token), ["t2"]);
});

test("Servers.follow() opens a stream again after OK, without an error", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(WATCH_ROOTS.path, rootsOf(A));
  rig.follow(rig.start());
  await rig.run(10_000);
  one.open(WATCH_ROOTS.path)[0]?.end(0);
  await rig.run(300);
  assert.deepEqual([rig.roots, rig.errors], [[A, A], []]);
});

for (
  const [code, atMost] of [
    // A refused stream is opened again now and then, an unimplemented method hardly ever.
    [7, 20],
    [12, 2],
  ] as const
) {
  test(`Servers.follow() stays with a server that ends a stream with ${code}`, async () => {
    using rig = new SessionRig();
    const one = rig.servers.add(A);
    one.knows(A, B);
    rig.servers.add(B);
    one.answer(WATCH_ROOTS.path, (call) => call.end(code, "no"));
    const session = rig.start();
    rig.follow(session);
    await rig.run(90_000);
    assert.equal(session.current?.host, A);
    assert.ok(rig.errors.length > 0 && rig.errors.length <= atMost, `${rig.errors.length} times`);
  });
}

test("Servers.follow() reports a rejected token, and opens the stream with the next one", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const session = rig.start();
  one.answer(WATCH_ROOTS.path, (call) => {
    if (call.token === "t2") rootsOf("new")(call);
    else call.end(16, "ACL not found");
  });
  rig.follow(session);
  await rig.run(1_000);
  assert.deepEqual(new Set(rig.token.rejections), new Set(["t1"]));
  assert.equal(rig.errors[0]?.code, "agent_forbidden");
  rig.token.change("t2");
  await rig.run(300);
  assert.deepEqual([rig.roots, session.current?.host], [["new"], A]);
});

test("Servers.follow() opens a failed stream again with growing pauses, then moves to another server", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.knows(A, B);
  rig.servers.add(B).answer(WATCH_ROOTS.path, rootsOf(B));
  one.answer(WATCH_ROOTS.path, (call) => call.end(13, "broken"));
  const session = rig.start();
  rig.follow(session);
  await rig.run(2_000);
  assert.equal(session.current?.host, A);
  await rig.run(8_000);
  assert.deepEqual([session.current?.host, rig.errors.length, rig.roots], [B, 4, [B]]);
});

test("Servers.follow() moves to another server where each stream breaks after it delivered", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.knows(A, B);
  one.answer(WATCH_ROOTS.path, rootsOf(A));
  rig.servers.add(B).answer(WATCH_ROOTS.path, rootsOf(B));
  const session = rig.start();
  rig.follow(session);
  for (let round = 0; round < 30 && session.current?.host !== B; round++) {
    await rig.run(2_000);
    one.open(WATCH_ROOTS.path)[0]?.end(13, "broken");
  }
  await rig.run(2_000);
  assert.deepEqual([session.current?.host, rig.errors.length], [B, 4]);
});

test("Servers.follow() moves to another server when one drains, without an error", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.knows(A, B);
  one.answer(WATCH_ROOTS.path, rootsOf(A));
  const two = rig.servers.add(B);
  two.knows(A, B);
  two.answer(WATCH_ROOTS.path, rootsOf(B));
  const session = rig.start();
  rig.follow(session);
  await rig.run(1_000);
  one.drain();
  await rig.run(1_000);
  assert.deepEqual([session.current?.host, rig.roots, rig.errors], [B, [A, B], []]);
  assert.deepEqual([one.open(), one.connections], [[], 0]);
});

test("Servers.follow() delivers nothing after it was stopped", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const session = rig.start();
  const following = rig.follow(session);
  await rig.run(10);
  const [call] = one.open(WATCH_ROOTS.path);
  following.stop();
  if (call && !call.over) rootsOf("late")(call);
  await rig.run(1_000);
  assert.deepEqual([rig.roots, rig.errors, one.open(WATCH_ROOTS.path)], [[], [], []]);
});

test("Servers keeps its server list when a server sends a hostile one", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const two = rig.servers.add(B);
  const session = rig.start({ places: { kind: "names", names: [A, B] } });
  const list = (servers: unknown[]) => (call: MemoryCall) => call.send("ServerList", { servers });
  for (
    const hostile of [
      list(
        Array.from({ length: 2_000 }, (_, at) => ({ address: `10.1.${at >> 8}.${at & 255}` })),
      ),
      list([{ address: "evil.example" }]),
      list([{ address: "10.0.0.9\r\nconsul server in use" }]),
      list([{ address: "" }]),
    ]
  ) {
    for (const server of [one, two]) server.answer(WATCH_SERVERS.path, hostile);
    for (const server of [one, two]) {
      for (const call of server.open(WATCH_SERVERS.path)) call.end(0);
    }
    await rig.run(5_000);
    assert.deepEqual(session.status.known.toSorted(), [A, B]);
    assert.match(session.status.lastFailure, /^[\x20-\x7e]{1,700}$/);
  }
});

test("Servers.follow() slows down a server that floods, and reports it as overloaded", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const session = rig.start();
  rig.follow(session);
  one.answer(WATCH_ROOTS.path, (call) => {
    for (let count = 0; count < 1_000; count++) rootsOf("again")(call);
  });
  await rig.run(5_000);
  assert.ok(rig.roots.length < 300, `${rig.roots.length} messages`);
  await rig.run(60_000);
  assert.equal(rig.errors[0]?.code, "agent_overloaded");
});
