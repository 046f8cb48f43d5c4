/**
 * The contract of TLS: what each side learns of the other, resumption, versions and suites, and streams
 * that were cut.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import type { PresentedPeer, Ticket } from "../../../src/net/mod.ts";
import { startServer } from "../../kit/wire/echo.ts";
import {
  ca,
  dial,
  engine,
  materialOf,
  quiet,
  resumes,
  SecureServer,
  type Side,
  webMaterial,
} from "./kit.ts";

const intermediate = ca.intermediate();
const dbLeaf = intermediate.issueLeaf({ service: "db" });
const webLeaf = intermediate.issueLeaf({ service: "web" });

function hex(bytes: readonly Uint8Array[]): string[] {
  return bytes.map((der) => Buffer.from(der).toString("hex"));
}

function assertShown(peer: PresentedPeer | undefined, leaf: typeof dbLeaf): void {
  assert.ok(peer?.leaf);
  assert.equal(peer.accepted, true, peer.reason);
  assert.deepEqual(hex([peer.leaf]), hex([leaf.certDer]));
  // Certificates that complete the path may be added to those that were presented; none may be left
  // out.
  assert.deepEqual(hex(peer.chain().slice(0, leaf.chainDer.length)), hex(leaf.chainDer));
}

for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
  const only = { minVersion: version, maxVersion: version };

  test(`${version} shows each side the other's leaf and intermediates`, async () => {
    await using server = await SecureServer.start(materialOf(dbLeaf, only));
    const client = await dial(server.port, { material: materialOf(webLeaf, only) }).side();
    const side = await server.side();
    assertShown(client.peer, dbLeaf);
    assertShown(side.peer, webLeaf);
    for (const { peer } of [client, side]) {
      assert.equal(peer?.version, version);
      assert.equal(peer?.resumed, false);
    }
  });

  test(`${version} gives a server the name its client asked for, resumed or not`, async () => {
    await using server = await SecureServer.start(materialOf(dbLeaf, only));
    const material = materialOf(webLeaf, only);
    let known: Ticket | undefined;
    for (const [index, serverName] of ["", "db.example", "db.example"].entries()) {
      const ticket = index === 2 ? known : undefined;
      const dialled = dial(server.port, { material, ticket, serverName });
      const client = await dialled.side();
      const side = await server.side(index);
      client.write("ping");
      await side.received("ping");
      side.write("pong");
      await client.received("pong");
      assert.equal(side.peer?.serverName, serverName);
      assert.equal(side.peer?.resumed, resumes && index === 2);
      known = dialled.tickets.at(-1);
    }
  });

  test(`${version} resumes with a ticket, and shows the same`, async () => {
    await using server = await SecureServer.start(materialOf(dbLeaf, only));
    const material = materialOf(webLeaf, only);
    let ticket: Ticket | undefined;
    for (let index = 0; index < 3; index++) {
      const dialled = dial(server.port, { material, ticket });
      const client = await dialled.side();
      const side = await server.side(index);
      client.write("hello");
      await side.received("hello");
      side.write("hello");
      await client.received("hello");
      assertShown(client.peer, dbLeaf);
      assertShown(side.peer, webLeaf);
      if (resumes) {
        assert.equal(client.peer?.resumed, index > 0);
        assert.equal(side.peer?.resumed, index > 0);
        const came = () => dialled.tickets.length > 0 || ticket !== undefined;
        await dialled.waiting.until(came, () => "no ticket came");
      }
      // TLS 1.2 gives none for a resumed connection: the old one goes on.
      ticket = dialled.tickets.at(-1) ?? ticket;
      client.connection.close();
      await side.event("end");
      side.connection.close();
    }
  });

  test(`${version} shakes hands in full with a ticket of another server`, async () => {
    await using first = await SecureServer.start(materialOf(dbLeaf, only));
    const leaf = intermediate.issueLeaf({ service: "db" });
    await using second = await SecureServer.start(materialOf(leaf, only));
    const material = materialOf(webLeaf, only);
    const dialled = dial(first.port, { material });
    (await dialled.side()).write("hello");
    const side = await first.side();
    side.write("hello");
    if (resumes) {
      await dialled.waiting.until(() => dialled.tickets.length > 0, () => "no ticket came");
    }
    for (const ticket of [dialled.tickets.at(-1), new Uint8Array(200).fill(7)]) {
      const before = second.sides.length;
      const client = await dial(second.port, { material, ticket }).side();
      const answer = await second.side(before);
      assert.equal(client.peer?.resumed, false);
      assertShown(client.peer, leaf);
      assertShown(answer.peer, webLeaf);
    }
  });
}

const OLD = { minVersion: "TLSv1.2", maxVersion: "TLSv1.2" } as const;
const NEW = { minVersion: "TLSv1.3", maxVersion: "TLSv1.3" } as const;
const A128 = ["ECDHE-ECDSA-AES128-GCM-SHA256"];
const A256 = ["ECDHE-ECDSA-AES256-GCM-SHA384"];
for (
  const [name, ours, theirs, want] of [
    ["the newest version by default", {}, {}, "TLSv1.3"],
    ["an older maximum of the server", OLD, {}, "TLSv1.2"],
    ["an older maximum of the client", {}, OLD, "TLSv1.2"],
    ["no version in common", NEW, OLD, "failed"],
    ["no version in common, the other way", OLD, NEW, "failed"],
    ["suites in common", { ...OLD, cipherSuites: A256 }, { cipherSuites: A256 }, "TLSv1.2"],
    ["no suite in common", { ...OLD, cipherSuites: A256 }, { cipherSuites: A128 }, "failed"],
  ] as const
) {
  test(`versions and suites: ${name}`, async () => {
    await using server = await SecureServer.start(
      materialOf(ca.issueLeaf({ service: "db" }), ours),
    );
    const result = await dial(server.port, {
      material: materialOf(ca.issueLeaf({ service: "web" }), theirs),
    }).result();
    const outcome = await server.outcome();
    if (want === "failed") {
      // One side may be done before the other refuses; that side then sees a close.
      assert.ok(outcome.kind === "failed" || result.kind === "failed");
      if (result.kind === "connected") await result.side.over();
      for (const side of server.sides) await side.over();
      return;
    }
    assert.equal(result.kind === "connected" && result.peer?.version, want);
    assert.equal(outcome.kind === "secured" && outcome.peer.version, want);
  });
}

interface Wire extends AsyncDisposable {
  readonly client: Side;
  readonly server: Side;
  /** The legs of the wire in the middle, to cut. */
  readonly toClient: Socket;
  readonly toServer: Socket;
}

/** A TLS connection over a wire that the test can cut. */
async function wired(): Promise<Wire> {
  const server = await SecureServer.start();
  const legs: Socket[] = [];
  const wire = await startServer((toClient) => {
    const toServer = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
    toServer.on("error", () => {});
    legs.push(toClient, toServer);
    toClient.on("data", (chunk) => toServer.write(chunk));
    toServer.on("data", (chunk) => toClient.write(chunk));
  });
  const client = await dial(wire.port, { material: webMaterial }).side();
  const side = await server.side();
  client.write("ping");
  await side.received("ping");
  side.write("pong");
  await client.received("pong");
  const [toClient, toServer] = legs;
  assert.ok(toClient && toServer);
  return {
    client,
    server: side,
    toClient,
    toServer,
    async [Symbol.asyncDispose]() {
      toServer.destroy();
      client.connection.reset();
      await wire[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A FIN without a close_notify before it, which Bun does not distinguish from an orderly end. */
const CUT = engine.name.startsWith("bun") ? "end" : "reset";

for (const end of ["client", "server"] as const) {
  const leg = end === "client" ? "toClient" : "toServer";

  for (const [name, last] of [["after a record", ""], ["in a record", "\x17\x03\x03\x40\x00ab"]]) {
    test(`a wire cut by a FIN ${name} is reported to the ${end}`, async () => {
      await using wire = await wired();
      wire[leg].end(Buffer.from(last ?? "", "latin1"));
      await wire[end].event(CUT);
      assert.deepEqual(wire[end].events, ["data", CUT]);
    });
  }

  test(`a wire cut by a reset is a reset to the ${end}`, async () => {
    await using wire = await wired();
    wire[leg].resetAndDestroy();
    await wire[end].over();
    assert.deepEqual(wire[end].events, ["data", "reset"]);
  });

  test(`a record that was tampered with is a reset to the ${end}`, async () => {
    await using wire = await wired();
    wire[leg].write(Buffer.concat([Buffer.of(0x17, 3, 3, 0, 32), Buffer.alloc(32, 9)]));
    await wire[end].over();
    assert.deepEqual(wire[end].events, ["data", "reset"]);
  });

  test(`plain text on the wire is a reset to the ${end}`, async () => {
    await using wire = await wired();
    wire[leg].write("GET / HTTP/1.1\r\n\r\n");
    await wire[end].over();
    assert.deepEqual(wire[end].events, ["data", "reset"]);
  });

  test(`a cut wire is noticed by a paused ${end} once it reads on`, async () => {
    await using wire = await wired();
    wire[end].connection.pause();
    wire[leg].end();
    await quiet();
    wire[end].connection.resume();
    await wire[end].event(CUT);
    assert.deepEqual(wire[end].events, ["data", CUT]);
  });
}
