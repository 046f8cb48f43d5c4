import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { inboundOf, snapshotOf } from "../../../test/kit/engine/snapshots.ts";
import type { ExposedPart } from "../../snapshot/mod.ts";
import { unjudgedHttp } from "../../source/parts/http_rules.ts";

const local = { kind: "tcp", host: "127.0.0.1", port: 9090 } as const;
const MESH = snapshotOf({ ca: createAuthority(), service: "db" });
const part = (port: number, path: string, version = 1): ExposedPart => ({
  version,
  bind: { kind: "tcp", host: "127.0.0.1", port },
  path,
  local,
  localConnectTimeoutMs: 1_000,
  http: unjudgedHttp("http") ?? assert.fail(),
});
const WITH = { ...MESH, exposed: { "exposed:21500": part(21_500, "/health") } };
const ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

async function ask(path: MemoryPath, target: string, client = path.engine.call(21_500)) {
  client.received = "";
  client.send(`GET ${target} HTTP/1.1\r\nHost: db\r\n\r\n`);
  await settle();
  return client;
}

test("an exposed listener passes on only its path, with any query", async () => {
  await using path = await startMemoryPath(WITH);
  const client = await ask(path, "/health?deep=1");
  assert.deepEqual(path.engine.lastDial.options.address, local);
  const app = path.engine.lastDial.connect();
  await settle();
  assert.match(app.received, /^GET \/health\?deep=1 HTTP\/1\.1\r\n/);
  app.send(ANSWER);
  await settle();
  assert.match(client.received, /^HTTP\/1\.1 200 OK\r\n/);
  app.received = "";
  for (const target of ["/", "/healthy", "/health/", "/Health", "/a/../health", "//health", "*"]) {
    const other = await ask(path, target);
    assert.match(other.received, /^HTTP\/1\.1 (?:404 Not Found|400 Bad Request)\r\n/, target);
  }
  assert.equal(app.received, "");
  assert.equal(path.engine.dials.length, 1);
});

for (
  const [remote, isLetIn] of [
    ["127.0.0.1:1", true],
    ["127.8.0.1:1", true],
    ["[::1]:1", true],
    ["[::ffff:127.0.0.1]:1", true],
    ["10.0.0.1:1", true],
    ["[::ffff:10.0.0.1]:1", true],
    ["[2001:DB8:0::1]:1", true],
    ["10.0.0.10:1", false],
    ["110.0.0.1:1", false],
    ["128.0.0.1:1", false],
    ["[2001:db8::2]:1", false],
    ["[::ffff:10.0.0.2]:1", false],
    ["[fe80::1%eth0]:1", false],
    ["", false],
  ] as const
) {
  test(`a path that is exposed for the agent ${isLetIn ? "admits" : "refuses"} "${remote}"`, async () => {
    const onlyFrom = ["10.0.0.1", "2001:db8::1"];
    const exposed = { "exposed:21500": { ...part(21_500, "/health"), onlyFrom } };
    await using path = await startMemoryPath({ ...MESH, exposed });
    const client = await ask(path, "/health", path.engine.call(21_500, remote));
    assert.equal(path.engine.dials.length, isLetIn ? 1 : 0);
    if (isLetIn) return;
    assert.equal(client.received, "");
    assert.notEqual(client.over, "no");
    const { code, reason } = path.lastEnd;
    assert.deepEqual([code, reason], [
      "source_denied",
      "only loopback and 10.0.0.1 and 2001:db8::1 may call",
    ]);
  });
}

test("a caller is closed when its address is no longer allowed", async () => {
  const only = (version: number, ...onlyFrom: readonly string[]) => ({
    ...MESH,
    exposed: { "exposed:21500": { ...part(21_500, "/health", version), onlyFrom } },
  });
  await using path = await startMemoryPath(only(1, "10.0.0.1"));
  const client = await ask(path, "/health", path.engine.call(21_500, "10.0.0.1:1"));
  path.engine.lastDial.connect().send(ANSWER);
  await settle();
  assert.equal(client.over, "no");
  await path.set(only(2, "10.0.0.2"));
  assert.equal(client.over, "end");
});

test("a path that is no longer exposed is refused on open connections", async () => {
  await using path = await startMemoryPath(WITH);
  const client = await ask(path, "/health");
  path.engine.lastDial.connect().send(ANSWER);
  await settle();
  assert.match(client.received, /^HTTP\/1\.1 200/);
  await path.set({ ...MESH, exposed: { "exposed:21500": part(21_500, "/live", 2) } });
  assert.match((await ask(path, "/health", client)).received, /^HTTP\/1\.1 404/);
  await path.set(MESH);
  assert.deepEqual(path.path.listeners(), []);
  assert.match((await ask(path, "/live", client)).received, /^HTTP\/1\.1 404/);
});

test("a request under way ends when its path is no longer exposed", async () => {
  await using path = await startMemoryPath(WITH);
  const client = await ask(path, "/health");
  const app = path.engine.lastDial.connect();
  await settle();
  await path.set(MESH);
  assert.match(client.received, /^HTTP\/1\.1 404/);
  assert.notEqual(app.over, "no");
});

test("callers of exposed paths and of the mesh have separate places", async () => {
  const snapshot = { ...WITH, inbound: { inbound: inboundOf({ local }, 21_000) } };
  await using path = await startMemoryPath(snapshot, { maxConnections: 32 });
  const first = path.engine.call(21_500, "10.0.0.1:1");
  path.engine.call(21_500, "10.0.0.2:1");
  const third = path.engine.call(21_500, "10.0.0.3:1");
  await settle();
  assert.equal(third.over, "reset");
  assert.equal(path.lastEnd.reason, "2 connections to exposed paths are open");
  for (let i = 0; i < 30; i++) assert.ok(!path.engine.callSecurely(21_000).gone);
  first.connection.reset();
  await settle();
  assert.equal(path.engine.call(21_500, "10.0.0.3:2").over, "no");
});

test("no address takes more than half of the places for callers of exposed paths", async () => {
  await using path = await startMemoryPath(WITH, { maxConnections: 80 });
  const call = (remote: string) => path.engine.call(21_500, remote);
  const [first, second] = [call("10.0.0.1:1"), call("10.0.0.1:2")];
  const greedy = call("10.0.0.1:3");
  await settle();
  assert.deepEqual([first.over, second.over, greedy.over], ["no", "no", "end"]);
  assert.equal(path.lastEnd.reason, "2 connections to exposed paths are open from its address");
  // An IPv6 network counts as one address.
  const others = ["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1"].map(call);
  await settle();
  assert.deepEqual(others.map(({ over }) => over), ["no", "no", "end"]);
  first.connection.reset();
  await settle();
  const again = call("10.0.0.1:4");
  await settle();
  assert.equal(again.over, "no");
});

test("a connection to an exposed path without a complete request is closed after a minute", async () => {
  await using path = await startMemoryPath(WITH, { idleTimeoutMs: 3_600_000 });
  const silent = path.engine.call(21_500);
  const slow = path.engine.call(21_500);
  slow.send("GET /health HTTP/1.1\r\n");
  const waiting = await ask(path, "/health");
  path.engine.lastDial.connect();
  await path.clock.advance(60_000);
  assert.deepEqual([silent.over, slow.over, waiting.over], ["no", "no", "no"]);
  await path.clock.advance(12_000);
  assert.notEqual(silent.over, "no");
  assert.notEqual(slow.over, "no");
  assert.match(waiting.received, /^HTTP\/1\.1 504 /);
});

test("a slow request to an exposed path is answered 408", async () => {
  await using path = await startMemoryPath(WITH);
  const slow = path.engine.call(21_500);
  slow.send("POST /health HTTP/1.1\r\nHost: db\r\nContent-Length: 100\r\n\r\n");
  await settle();
  path.engine.lastDial.connect();
  for (let second = 0; second < 62; second++) {
    slow.send("a");
    await path.clock.advance(1_000);
  }
  assert.match(slow.received, /^HTTP\/1\.1 408 .*request timeout$/s);
});

test("a connection to an exposed path with regular requests stays open", async () => {
  await using path = await startMemoryPath(WITH);
  const client = await ask(path, "/health");
  const app = path.engine.lastDial.connect();
  for (let minute = 0; minute < 3; minute++) {
    app.send(ANSWER);
    await settle();
    assert.match(client.received, /^HTTP\/1\.1 200/);
    await path.clock.advance(50_000);
    await ask(path, "/health", client);
  }
  assert.equal(client.over, "no");
});

test("an exposed path follows a change of its application's address", async () => {
  await using path = await startMemoryPath(WITH);
  const client = await ask(path, "/health");
  path.engine.lastDial.connect().send(ANSWER);
  await settle();
  const moved = { ...part(21_500, "/health", 2), local: { ...local, port: 9091 } };
  await path.set({ ...MESH, exposed: { "exposed:21500": moved } });
  await ask(path, "/health", client);
  assert.deepEqual(path.engine.lastDial.options.address, moved.local);
});
