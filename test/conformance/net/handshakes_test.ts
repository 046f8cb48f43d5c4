/**
 * The contract of handshakes that fail, and of clients that misbehave: each failure is reported once,
 * with a reason, and the listener serves the next client.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import type { HandshakeOutcome, TlsMaterial } from "../../../src/net/mod.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { ca, dial, materialOf, quiet, SecureServer, SERVER_NAME } from "./kit.ts";
import { clientHello } from "./client_hello.ts";

const other = createAuthority({ name: "other" });
const HOUR_MS = 3_600_000;

/**
 * A mesh peer still gets through, and each handshake so far was reported once, also one that is closed.
 */
async function stillServes(server: SecureServer, failures: number): Promise<void> {
  const client = await dial(server.port).side();
  client.write("hello");
  const side = await server.side();
  await side.received("hello");
  client.connection.reset();
  await side.over();
  await quiet(5);
  assert.equal(server.outcomes.length, failures + 1);
}

/** An engine refuses by itself, or reports and closes. */
function notAccepted(outcome: HandshakeOutcome): void {
  if (outcome.kind === "failed") {
    assert.notEqual(outcome.reason, "");
    assert.equal(outcome.gone, false, outcome.reason);
  } else {
    assert.equal(outcome.peer.accepted, false);
    assert.notEqual(outcome.peer.reason, "");
  }
}

function megabyte(): TlsMaterial {
  const leaf = ca.issueLeaf({ service: "web" });
  return materialOf(leaf, { certPem: leaf.certPem + ca.rootPem.repeat(2_000) });
}

function rawClient(port: number, bytes?: Uint8Array): Socket {
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", () => {});
  socket.resume();
  if (bytes) socket.write(bytes);
  return socket;
}

for (
  const [name, bytes] of [
    ["100 KB of garbage", new Uint8Array(100_000).fill(0x41)],
    ["100 KB of zeros", new Uint8Array(100_000)],
    ["an HTTP request", Buffer.from("GET / HTTP/1.1\r\nHost: db\r\n\r\n")],
    ["a TLS 1.1 hello", clientHello({ version: 0x0302 })],
    ["an SSL 3 hello", clientHello({ version: 0x0300 })],
    ["a hello without a suite in common", clientHello({ version: 0x0303, suites: [0x0005] })],
    ["a hello cut short by another record", clientHello({ version: 0x0303, cut: 20 })],
  ] as const
) {
  test(`secure() fails once on ${name}`, async () => {
    await using server = await SecureServer.start();
    const client = rawClient(server.port, bytes);
    const outcome = await server.outcome();
    assert.equal(outcome.kind, "failed");
    if (outcome.kind === "failed") {
      assert.notEqual(outcome.reason, "");
      assert.equal(outcome.gone, false);
    }
    // The peer learns of it, too: its connection is closed.
    if (!client.closed) await new Promise((resolve) => client.once("close", resolve));
    await stillServes(server, 1);
  });
}

for (
  const [name, material] of [
    ["another authority's leaf", materialOf(other.issueLeaf({ service: "web" }))],
    [
      "an expired leaf",
      materialOf(ca.issueLeaf({
        service: "web",
        overrides: { notBeforeMs: Date.now() - 9 * HOUR_MS, notAfterMs: Date.now() - HOUR_MS },
      })),
    ],
    [
      "a leaf of tomorrow",
      materialOf(ca.issueLeaf({ service: "web", nowMs: Date.now() + 24 * HOUR_MS })),
    ],
    ["a megabyte of certificates", megabyte()],
  ] as const
) {
  test(`secure() fails once on a client with ${name}`, async () => {
    await using server = await SecureServer.start();
    const client = dial(server.port, { material });
    notAccepted(await server.outcome());
    // In TLS 1.3 the client was connected before the server judged it; the client then sees a close.
    const result = await client.result();
    if (result.kind === "connected") {
      result.side.write("not for your ears");
      await result.side.over();
    }
    for (const { size } of server.sides.splice(0)) assert.equal(size, 0);
    await stillServes(server, 1);
    assert.equal(client.results.length, 1);
  });
}

test("secure() fails once on a client with no certificate", async () => {
  for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
    await using server = await SecureServer.start();
    const client = connectTls({
      port: server.port,
      host: "127.0.0.1",
      servername: SERVER_NAME,
      rejectUnauthorized: false,
      maxVersion,
    });
    client.on("error", () => {});
    client.resume();
    notAccepted(await server.outcome());
    if (!client.closed) await new Promise((resolve) => client.once("close", resolve));
    await stillServes(server, 1);
  }
});

test("secure() reports a client that leaves in the middle", async () => {
  await using server = await SecureServer.start();
  const hello = clientHello({ version: 0x0303 });
  const client = rawClient(server.port, hello.subarray(0, 50));
  await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
  await quiet(5);
  assert.deepEqual(server.outcomes, []);
  client.destroy();
  const outcome = await server.outcome();
  assert.equal(outcome.kind, "failed");
  await stillServes(server, 1);
});

for (const how of ["end", "destroy", "resetAndDestroy"] as const) {
  test(`secure() reports a probe that connects and leaves by ${how}()`, async () => {
    await using server = await SecureServer.start();
    const client = connect({ port: server.port, host: "127.0.0.1" });
    client.on("error", () => {});
    client.once("connect", () => client[how]());
    // A reset may come before the connection was even handed out.
    await client.closed || await new Promise((resolve) => client.once("close", resolve));
    await quiet();
    for (const outcome of server.outcomes) {
      assert.equal(outcome.kind === "failed" && outcome.gone, true);
    }
    // A connection that was handed out is reported once. The peer that is served comes after the
    // probe, so that nothing more is on its way then.
    const peer = await dial(server.port).side();
    peer.write("hello");
    await (await server.side()).received("hello");
    const all = () => server.outcomes.length >= server.accepted.length;
    await server.until(all, () => `${server.outcomes.length} of ${server.accepted.length}`);
    await quiet(5);
    assert.equal(server.outcomes.length, server.accepted.length);
    assert.ok(server.outcomes.length <= 2);
  });
}

test("secure() keeps 200 silent clients apart from one that speaks", async () => {
  await using server = await SecureServer.start();
  const silent = Array.from({ length: 200 }, () => rawClient(server.port));
  await server.until(() => server.accepted.length === 200, () => `${server.accepted.length}`);
  await stillServes(server, 0);
  for (const socket of silent) socket.destroy();
  await server.until(() => server.outcomes.length === 201, () => `${server.outcomes.length}`);
  await quiet(5);
  assert.equal(server.outcomes.length, 201);
  assert.equal(server.outcomes.filter(({ kind }) => kind === "secured").length, 1);
});

test("an accepted connection that is reset reports no handshake outcome", async () => {
  const outcomes: string[] = [];
  await using server = await SecureServer.start(undefined, (accepted, tls) => {
    accepted.secure(tls, ({ kind }) => outcomes.push(kind));
    accepted.reset();
    accepted.reset();
  });
  const result = await dial(server.port).result();
  assert.equal(result.kind, "failed");
  await quiet(5);
  assert.deepEqual(outcomes, []);
});

test("an accepted connection can be reset instead of secured", async () => {
  await using server = await SecureServer.start(undefined, (accepted) => accepted.reset());
  // At either stage: the reset may overtake the word that TCP is up.
  assert.equal((await dial(server.port).result()).kind, "failed");
});

test("an accepted connection can be secured later, when its client has spoken already", async () => {
  const start: Array<() => void> = [];
  await using server = await SecureServer.start(undefined, (accepted, tls) => {
    start.push(() => accepted.secure(tls, (outcome) => server.settled(outcome)));
  });
  const client = dial(server.port);
  await server.until(() => start.length === 1, () => "nothing was accepted");
  await quiet();
  start[0]?.();
  (await client.side()).write("patient");
  await (await server.side()).received("patient");
});
