import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { ACK, frame, headers, RawPeer, settings } from "../../../test/kit/wire/http2_wire.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { httpRules, snapshotOf, targetOf } from "../../../test/kit/engine/snapshots.ts";

const CA = createAuthority();
const DB = CA.issueLeaf({ service: "db" });
/** One connection for all requests. */
const SNAPSHOT = snapshotOf({
  ca: CA,
  service: "web",
  upstreams: [{ name: "db", http: httpRules("http2"), maxConnections: 1 }],
  targets: [targetOf({ name: "db", uris: [DB.uri], ports: [1] })],
});
const MAX_STREAMS = 3;
const OK = headers(1, [[":status", "204"]]);

async function ask(path: MemoryPath) {
  const caller = path.engine.call(path.port("db"));
  caller.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  return caller;
}

async function accept({ engine }: MemoryPath, streams: number): Promise<RawPeer> {
  const server = new RawPeer(engine.lastDial.connect(presented(DB)).connection, { server: true });
  await server.send(settings([MAX_STREAMS, streams]), frame("SETTINGS", ACK, 0));
  return server;
}

function failures({ path }: MemoryPath): readonly string[] {
  return path.stats.samples().filter(({ name, value }) =>
    name === "endpoint_failures_total" && Number(value) > 0
  ).map(({ labels: { code = "" }, value }) => `${code} ${value}`);
}

test("a request waits for room on a connection until its timeout, which counts as a failure of the endpoint", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const first = await ask(path);
  const server = await accept(path, 1);
  const second = await ask(path);
  await path.clock.advance(29_000);
  assert.equal(second.received, "");
  await path.clock.advance(2_000);
  assert.match(second.received, /^HTTP\/1\.1 503 /);
  assert.deepEqual(failures(path), ["endpoint_timed_out 1"]);
  await server.send(OK);
  assert.match(first.received, /^HTTP\/1\.1 204 /);
  for (const caller of [first, second]) caller.connection.close();
});

test("a connection whose server accepts no more requests is closed, and waiting requests get another", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const first = await ask(path);
  const server = await accept(path, 0);
  const second = await ask(path);
  assert.equal(path.engine.dials.length, 1);
  await server.send(OK);
  assert.match(first.received, /^HTTP\/1\.1 204 /);
  assert.equal(server.closed, "closed");
  assert.equal(path.engine.dials.length, 2);
  const other = await accept(path, 1);
  await other.send(OK);
  assert.match(second.received, /^HTTP\/1\.1 204 /);
  for (const caller of [first, second]) caller.connection.close();
});

test("a connection that its server is about to end carries no request", async () => {
  await using path = await startMemoryPath(snapshotOf({
    ca: CA,
    service: "web",
    upstreams: [{ name: "db", http: httpRules("http") }],
    targets: [targetOf({ name: "db", uris: [DB.uri], ports: [1] })],
  }));
  const exchange = async () => {
    const caller = await ask(path);
    const { lastDial, dials } = path.engine;
    const server = servers[dials.length] ??= lastDial.connect(presented(DB));
    await settle();
    assert.match(server.received, /^GET /);
    server.received = "";
    server.send("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n");
    await settle();
    assert.match(caller.received, /^HTTP\/1\.1 200 /);
    caller.connection.close();
    return dials.length;
  };
  const servers: End[] = [];
  assert.equal(await exchange(), 1);
  await path.clock.advance(3_900);
  assert.equal(await exchange(), 1);
  await path.clock.advance(4_100);
  assert.equal(await exchange(), 2);
  assert.equal(servers[1]?.over, "end");
});
