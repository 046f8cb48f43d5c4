/**
 * Limits on connections, on waiting, on idleness and age; draining; unix sockets; live changes that
 * touch only what they are about.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { TakeConditions } from "../../src/base/mod.ts";
import { eventually } from "../kit/process/process.ts";
import { clientOf, openClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { startPathPair } from "../kit/engine/path_pair.ts";
import { upstreamOf } from "../kit/engine/snapshots.ts";

async function greet(port: number) {
  const client = await openClient(port);
  client.send("hello");
  await client.read(5);
  return client;
}

test("max_inbound_connections refuses the one too many, and takes the next when one has left", async () => {
  await using echo = await startEcho();
  const texts: string[] = [];
  const takeConditions: TakeConditions = (changes) => {
    texts.push(...changes.map(({ event }) => event?.text ?? ""));
    return Promise.resolve();
  };
  await using pair = await startPathPair({
    localPort: echo.port,
    inbound: { maxConnections: 2 },
    db: { takeConditions },
  });
  const first = await greet(pair.port);
  await using _second = await greet(pair.port);
  await using third = await openClient(pair.port);
  assert.equal(await third.gone, "reset");
  await pair.line(({ fields }) => fields.code === "overloaded");
  await eventually("it is an event", () => texts.length > 0);
  assert.match(texts[0] ?? "", /^connections at inbound are refused with overloaded: .*2/);
  first.socket.destroy();
  // The limit is db's, so its line of the first connection's end is awaited.
  await pair.line(({ message, fields }) =>
    message.startsWith("connection") && fields.direction === "inbound" &&
    fields.received_bytes === 5
  );
  await using fourth = await greet(pair.port);
  fourth.send("still");
});

test("limits.max_connections 0 takes none", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, upstream: { maxConnections: 0 } });
  await using client = await openClient(pair.port);
  assert.equal(await client.gone, "reset");
  const { fields } = await pair.line(({ fields }) => fields.code === "limit_reached");
  assert.match(String(fields.reason), /max_connections is 0/);
});

test("limits.max_pending_requests 0 lets no request wait", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, upstream: { maxPending: 0 } });
  await using client = await openClient(pair.port);
  assert.equal(await client.gone, "reset");
  const { fields } = await pair.line(({ fields }) => fields.code === "limit_reached");
  assert.match(String(fields.reason), /max_pending_requests is 0/);
});

test("an idle connection is ended", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, upstream: { idleTimeoutMs: 1 } });
  // No greeting: a millisecond may be over before the answer is here.
  await using client = await openClient(pair.port);
  client.send("hello");
  await client.gone;
  const { fields } = await pair.line(({ fields }) => fields.code === "idle_timed_out");
  assert.equal(fields.ended_by, "proxy");
});

test("a connection's lifetime ends it", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, upstream: { lifetimeMs: 1 } });
  await using client = await openClient(pair.port);
  client.send("hello");
  await client.gone;
  await pair.line(({ fields }) => fields.code === "lifetime_ended");
});

test("drain refuses new connections, lets open ones finish, and ends the rest at its deadline", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await greet(pair.port);
  const { port } = pair;
  const drained = pair.web.path.drain(60_000);
  await assert.rejects(openClient(port));
  client.send("still");
  assert.equal(String(await client.read(5)), "still");
  client.socket.end();
  await drained;
  assert.equal(await client.gone, "end");
});

test("drain cuts connections still open at the deadline", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await greet(pair.port);
  await pair.web.path.drain(50);
  await client.gone;
  await pair.line(({ fields }) => fields.code === "drained");
});

test("a local service and an upstream on unix sockets", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-"));
  try {
    await using echo = await startEcho();
    const path = join(directory, "db.sock");
    await using _pair = await startPathPair({
      localPort: echo.port,
      upstream: { bind: { kind: "unix", path, mode: 0o600 } },
    });
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    const socket = connect({ path, allowHalfOpen: true });
    await using client = clientOf(socket);
    client.send("hello");
    assert.equal(String(await client.read(5)), "hello");
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("a changed upstream leaves the connections of the other alone", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await greet(pair.port);
  const known = Object.values(pair.webSnapshot.upstreams)[0];
  assert.ok(known);
  const added = upstreamOf({ name: "cache" });
  await pair.web.set({
    ...pair.webSnapshot,
    upstreams: { [known.id]: known, [added.id]: added },
  });
  const port = pair.web.port("cache");
  await using refused = await openClient(port);
  assert.equal(await refused.gone, "reset");
  await pair.web.set({ ...pair.webSnapshot, upstreams: { [known.id]: known } });
  await assert.rejects(openClient(port));
  assert.equal(pair.web.port("db"), pair.port);
  client.send("still");
  assert.equal(String(await client.read(5)), "still");
});

test("a removed upstream stops listening; its open connections stay open", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await greet(pair.port);
  await pair.web.set({ ...pair.webSnapshot, upstreams: {}, targets: {} });
  await assert.rejects(openClient(pair.port));
  client.send("still");
  assert.equal(String(await client.read(5)), "still");
});
