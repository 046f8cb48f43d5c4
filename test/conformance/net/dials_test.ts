/**
 * The contract of dialling: the faults of a server, and the gaps of its certificate. Each failure is
 * reported once, with a reason; a cancelled dial reports nothing.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { formatPem } from "../../../src/wire/mod.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { startServer } from "../../kit/wire/echo.ts";
import {
  ca,
  dial,
  engine,
  LOOPBACK,
  materialOf,
  portOf,
  quiet,
  SecureServer,
  SERVER_NAME,
  webMaterial,
} from "./kit.ts";

const other = createAuthority({ name: "other" });
const HOUR_MS = 3_600_000;

test("dial() fails to connect where nothing listens", async () => {
  const server = await startServer(() => {});
  await server[Symbol.asyncDispose]();
  for (const material of [null, webMaterial]) {
    const client = dial(server.port, { material });
    const result = await client.result();
    assert.equal(result.kind === "failed" && result.stage, "connect");
    const reason = result.kind === "failed" ? result.reason : "";
    assert.equal(reason, "nothing there takes connections (ECONNREFUSED)");
    await quiet(5);
    assert.equal(client.results.length, 1);
  }
});

for (
  const [name, act] of [
    ["closes at once", (socket) => void socket.end()],
    ["resets at once", (socket) => void socket.resetAndDestroy()],
    ["closes during the handshake", (socket) => void socket.once("data", () => socket.end())],
    ["resets in the handshake", (socket) => {
      socket.once("data", () => void socket.resetAndDestroy());
    }],
    ["speaks plain text", (socket) => void socket.write("220 hello, this is not TLS\r\n")],
    ["sends a broken record", (socket) => {
      socket.write(Uint8Array.of(0x16, 3, 3, 0, 2, 2, 0xff, 0x16, 3, 3, 0xff, 0xff));
      socket.end();
    }],
  ] as ReadonlyArray<readonly [string, (socket: Socket) => void]>
) {
  test(`dial() fails in the handshake when the server ${name}`, async () => {
    const gone = Promise.withResolvers<void>();
    await using server = await startServer((socket) => {
      socket.once("close", () => gone.resolve());
      act(socket);
      socket.resume();
      socket.once("end", () => socket.end());
    });
    const client = dial(server.port);
    const result = await client.result();
    assert.equal(result.kind, "failed");
    if (result.kind === "failed") {
      assert.notEqual(result.reason, "");
      // An immediate reset may overtake the word that TCP is up.
      if (name !== "resets at once") assert.equal(result.stage, "handshake");
    }
    await gone.promise;
    await quiet(5);
    assert.equal(client.results.length, 1);
  });
}

test("dial() waits for a silent server until it is cancelled, and reports nothing then", async () => {
  const gone: Promise<void>[] = [];
  await using server = await startServer((socket) => {
    gone.push(new Promise((resolve) => socket.on("close", () => resolve())));
    socket.on("data", () => {});
    socket.on("end", () => socket.end());
  });
  const client = dial(server.port);
  while (gone.length === 0) await quiet(1);
  await quiet(5);
  assert.deepEqual(client.results, []);
  client.cancel();
  await gone[0];
  assert.deepEqual(client.results, []);
  client.cancel();
});

test("dial() cancelled before it connected reports nothing", async () => {
  await using server = await SecureServer.start();
  const results = [dial(server.port), dial(server.port, { material: null })].map((client) => {
    client.cancel();
    return client.results;
  });
  await quiet();
  assert.deepEqual(results, [[], []]);
  assert.deepEqual(server.outcomes.filter(({ kind }) => kind === "secured"), []);
});

test("dial() cancelled after it connected leaves the connection alone or breaks it, silently", async () => {
  const listener = await engine.listen(
    { address: LOOPBACK, reusePort: false },
    (connection) => connection.write(Buffer.from("welcome")),
  );
  const client = dial(portOf(listener), { material: null });
  const side = await client.side();
  await side.received("welcome");
  client.cancel();
  await quiet(5);
  assert.equal(client.results.length, 1);
  side.connection.reset();
  listener.close();
});

// One library refuses it; the other accepts it, and uses the other roots.
const minds = engine.name.startsWith("bun");
test(`dial() ${minds ? "fails with" : "ignores"} a root that has no name, and does not throw`, async () => {
  await using server = await SecureServer.start();
  const named = createAuthority({ name: "zzzzzzzz" });
  const der = Buffer.from(named.rootDer);
  // The subject's only set becomes something else: the fields that we read of a certificate stay as
  // they were.
  der[der.lastIndexOf("zzzzzzzz") - 11] = 0x05;
  const rootPems = [formatPem("CERTIFICATE", der), ca.rootPem];
  assert.equal(engine.tlsFault({ certPem: "", keyPem: "", rootPems }) !== undefined, minds);
  const result = await dial(server.port, { material: { ...webMaterial, rootPems } }).result();
  assert.equal(result.kind, minds ? "failed" : "connected");
});

test("dial() sends the name it was given", async () => {
  const received: Buffer[] = [];
  await using server = await startServer((socket) => {
    socket.on("data", (chunk: Buffer) => {
      received.push(chunk);
      socket.destroy();
    });
  });
  await dial(server.port).result();
  assert.ok(Buffer.concat(received).includes(SERVER_NAME));
});

test("dial() judges the server's chain and not its names", async () => {
  await using server = await SecureServer.start();
  const side = await dial(server.port).side();
  assert.equal(side.peer?.accepted, true, side.peer?.reason ?? "");
  assert.equal(side.peer?.reason, "");
});

const self = createAuthority({ name: "self-made" });
for (
  const [name, material] of [
    ["another authority's leaf", materialOf(other.issueLeaf({ service: "db" }), { roots: [ca] })],
    [
      "another authority's leaf with its root",
      materialOf(other.withChain([other.rootDer]).issueLeaf({ service: "db" })),
    ],
    [
      "an expired leaf",
      materialOf(ca.issueLeaf({
        service: "db",
        overrides: { notBeforeMs: Date.now() - 9 * HOUR_MS, notAfterMs: Date.now() - HOUR_MS },
      })),
    ],
    [
      "a leaf of tomorrow",
      materialOf(ca.issueLeaf({ service: "db", nowMs: Date.now() + 24 * HOUR_MS })),
    ],
    [
      "a leaf whose intermediate is missing",
      materialOf(ca.intermediate().withChain([]).issueLeaf({ service: "db" })),
    ],
    [
      "a self-signed certificate",
      materialOf(ca.issueLeaf({ service: "db" }), {
        certPem: self.rootPem,
        keyPem: self.key.privateKey.export({ type: "sec1", format: "pem" }).toString(),
      }),
    ],
  ] as const
) {
  test(`dial() does not accept a server with ${name}`, async () => {
    await using server = await SecureServer.start(material);
    const result = await dial(server.port).result();
    // An engine may refuse by itself, or report; its report is never only the missing name.
    if (result.kind === "failed") {
      assert.equal(result.stage, "handshake");
      assert.notEqual(result.reason, "");
    } else {
      assert.equal(result.peer?.accepted, false, "was accepted");
      assert.notEqual(result.peer?.reason, "");
    }
  });
}
