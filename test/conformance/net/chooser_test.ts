/**
 * The contract of choosers: settings picked by the client's first bytes, at once or later.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import type { HandshakeOutcome, ServerTls } from "../../../src/net/mod.ts";
import type { ClientHello } from "../../../src/wire/mod.ts";
import {
  byName,
  hexOf,
  leafOf,
  NAMES,
  serve,
  serveAtOnce,
  settings,
  stillServes,
} from "./chooser_kit.ts";
import { dial, engine, quiet, SecureServer } from "./kit.ts";
import { Waiting } from "./side.ts";

test("choose() gets the client's hello", async () => {
  const hellos: ClientHello[] = [];
  await using server = await serveAtOnce((hello) => {
    hellos.push(hello);
    return settings.get("a.example");
  });
  const client = connectTls({
    port: server.port,
    host: "127.0.0.1",
    servername: "A.Example",
    ALPNProtocols: ["h2", "http/1.1"],
    rejectUnauthorized: false,
  });
  client.on("error", () => {});
  await server.outcome();
  client.destroy();
  assert.equal(hellos.length, 1);
  assert.equal(hellos[0]?.serverName, "a.example");
  assert.deepEqual(hellos[0]?.alpn, ["h2", "http/1.1"]);
  assert.ok(hellos[0]?.signatureAlgorithms.includes(0x0403), "ecdsa_secp256r1_sha256");
});

test("choose() decides for each of 200 clients, at once or later", async () => {
  let answers = 0;
  await using server = await serveAtOnce((hello) => {
    const tls = byName(hello);
    if (answers++ % 2 === 0) return tls;
    return new Promise((resolve) => setImmediate(() => resolve(tls)));
  });
  const names = Array.from({ length: 200 }, (_, index) => NAMES[index % 3] ?? "");
  await Promise.all(
    names.map(async (serverName) => {
      const client = await dial(server.port, { serverName }).side();
      assert.equal(leafOf(client.peer), hexOf(serverName));
      client.write(serverName);
      await client.received(serverName);
      client.connection.close();
    }).concat((async () => {
      for (let index = 0; index < names.length; index++) {
        const side = await server.side(index);
        side.until(() => side.size === 9, () => side.text).then(() => side.write(side.text));
      }
    })()),
  );
  assert.equal(answers, 200);
  assert.equal(server.outcomes.length, 200);
});

test("choose() may hold a handshake up, and others go on meanwhile", async () => {
  const late = Promise.withResolvers<ServerTls | undefined>();
  await using server = await serve((hello) => {
    return hello.serverName === "b.example" ? late.promise : byName(hello);
  });
  const waiting = dial(server.port, { serverName: "b.example" });
  await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
  await stillServes(server, 0);
  assert.deepEqual(waiting.results, []);
  late.resolve(settings.get("b.example"));
  const client = await waiting.side();
  assert.equal(leafOf(client.peer), hexOf("b.example"));
  client.write("patient");
  const side = await server.side(1);
  await side.received("patient");
  side.write("rewarded");
  await client.received("rewarded");
});

test("a hello that comes byte by byte is read, and the handshake goes through", async () => {
  let asked = 0;
  await using server = await serve((hello) => {
    asked++;
    return byName(hello);
  });
  const wire = createServer((client) => {
    const onward = connect({ port: server.port, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, onward]) socket.on("error", () => {});
    let sent = Promise.resolve();
    client.on("data", (chunk: Buffer) => {
      sent = sent.then(async () => {
        for (const byte of chunk) {
          await new Promise<void>((resolve) => onward.write(Buffer.of(byte), () => resolve()));
        }
      });
    });
    client.on("close", () => onward.destroy());
    onward.on("data", (chunk: Buffer) => client.write(chunk));
  });
  await new Promise<void>((resolve) => wire.listen(0, "127.0.0.1", resolve));
  const { port } = wire.address() as { readonly port: number };
  const client = await dial(port, { serverName: "c.example" }).side();
  assert.equal(leafOf(client.peer), hexOf("c.example"));
  client.write("slow");
  await (await server.side()).received("slow");
  assert.equal(asked, 1);
  client.connection.reset();
  await new Promise<void>((resolve) => wire.close(() => resolve()));
});

test("a connection can be given to a chooser later, when its client has spoken already", async () => {
  const start: Array<() => void> = [];
  await using server: SecureServer = await SecureServer.start(undefined, (accepted) => {
    start.push(() =>
      accepted.secure({ kind: "chooser", choose: byName }, (outcome) => server.settled(outcome))
    );
  });
  const client = dial(server.port, { serverName: "b.example" });
  await server.until(() => start.length === 1, () => "nothing was accepted");
  await quiet();
  start[0]?.();
  (await client.side()).write("patient");
  await (await server.side()).received("patient");
});

test("a chooser and plain settings share a listener", async () => {
  await using server: SecureServer = await SecureServer.start(undefined, (accepted, tls) => {
    const chooser = { kind: "chooser", choose: byName } as const;
    const plain = server.accepted.length % 2 === 0;
    accepted.secure(plain ? tls : chooser, (outcome) => server.settled(outcome));
  });
  for (let index = 0; index < 6; index++) {
    const client = await dial(server.port, { serverName: "a.example" }).side();
    const chosen = leafOf(client.peer) === hexOf("a.example");
    assert.equal(chosen, server.accepted.length % 2 === 1);
    client.write("hello");
    await (await server.side(index)).received("hello");
  }
});

test("a chooser serves a local socket", async () => {
  const directory = mkdtempSync(join(tmpdir(), "postern-net-"));
  const path = join(directory, "tls.sock");
  const outcomes: HandshakeOutcome[] = [];
  const waiting = new Waiting();
  const listener = await engine.listenSecure(
    { address: { kind: "unix", path }, reusePort: false },
    (accepted) =>
      accepted.secure({ kind: "chooser", choose: byName }, (outcome) => {
        outcomes.push(outcome);
        waiting.woken();
      }),
  );
  const client = await dial(0, { path, serverName: "c.example" }).side();
  assert.equal(leafOf(client.peer), hexOf("c.example"));
  await waiting.until(() => outcomes.length === 1, () => "no outcome was reported");
  assert.equal(outcomes[0]?.kind, "secured");
  client.connection.reset();
  listener.close();
  rmSync(directory, { recursive: true });
});
