/**
 * A server that refuses our certificate ends the connection when our handshake is done already: the
 * caller's side reports that, and does not take a server that just closes for one.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { openClient } from "../kit/engine/data_path.ts";
import { startEcho, startServer } from "../kit/wire/echo.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { intention } from "../kit/engine/snapshots.ts";

type Line = Awaited<ReturnType<PathPair["line"]>>;

/** How web's connection ended, by its log and its metric. */
async function callersEnd(pair: PathPair): Promise<Line & { readonly outcome: string }> {
  const line = await pair.line(({ fields, message }) =>
    fields.direction === "outbound" && message.startsWith("connection ")
  );
  const ended = pair.web.path.stats.samples()
    .find(({ name, labels }) =>
      name === "connections_ended_total" && labels["direction"] === "outbound"
    );
  return { ...line, outcome: `${ended?.labels["outcome"]} by ${ended?.labels["ended_by"]}` };
}

const refusing = ({ web }: PathPair) =>
  web.path.view({ connections: false }).refusing.map(({ deniedBy, caller, count, unit, code }) =>
    `${deniedBy} to ${caller}: ${count} ${unit}, ${code}`
  );

const DENIED = { intentions: [intention("web", "deny")] } as const;

for (
  const [name, options, app] of [
    ["an intention denies it", DENIED, startEcho],
    ["its application is down", {}, async () => {
      const gone = await startEcho();
      await gone[Symbol.asyncDispose]();
      return gone;
    }],
    [
      "its application breaks it at once",
      {},
      () => startServer((socket) => socket.resetAndDestroy()),
    ],
  ] as const
) {
  for (const speaks of [false, true]) {
    test(`a caller that ${speaks ? "speaks" : "waits"} is refused by the peer: ${name}`, async () => {
      await using local = await app();
      await using pair = await startPathPair({ localPort: local.port, ...options });
      await using client = await openClient(pair.port);
      if (speaks) client.send("hello");
      await client.gone;
      client.socket.end();
      const { level, fields, outcome } = await callersEnd(pair);
      assert.equal(fields.code, "refused_by_peer", JSON.stringify(fields));
      assert.equal(level, "warn");
      assert.equal(fields.ended_by, "upstream");
      const reason = String(fields.reason);
      assert.equal(
        reason,
        "probably refused; on its host: postern explain -inbound -source web",
      );
      assert.deepEqual(refusing(pair), ["db to web: 1 connections, refused_by_peer"]);
      assert.equal(outcome, "refused_by_peer by upstream");
    });
  }
}

test("a caller is refused by a peer that does not trust its CA", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  const { credentials } = pair.dbSnapshot;
  const rootPems = [createAuthority().rootPem];
  await pair.db.set({ ...pair.dbSnapshot, credentials: { ...credentials, version: -1, rootPems } });
  await using client = await openClient(pair.port);
  client.send("hello");
  await client.gone;
  client.socket.end();
  assert.equal((await callersEnd(pair)).fields.code, "refused_by_peer");
});

test("refusals are warned of once a while", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, ...DENIED });
  for (let call = 0; call < 3; call++) {
    await using client = await openClient(pair.port);
    await client.gone;
    client.socket.end();
  }
  const refused = () => pair.lines.filter(({ fields }) => fields.code === "refused_by_peer");
  await pair.line(() => refused().length === 3);
  assert.deepEqual(refused().map(({ level }) => level), ["warn", "info", "info"]);
});

test("an application that answers and closes is no refusal", async () => {
  await using app = await startServer((socket) => socket.end("bye"));
  await using pair = await startPathPair({ localPort: app.port });
  await using client = await openClient(pair.port);
  assert.equal(String(await client.readAll()), "bye");
  client.socket.end();
  const { level, fields, outcome } = await callersEnd(pair);
  assert.equal(level, "info", JSON.stringify(fields));
  assert.equal(outcome, "completed by upstream");
  assert.deepEqual(refusing(pair), []);
});

test("a caller that connects and leaves was not refused", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port });
  await using client = await openClient(pair.port);
  client.socket.end();
  const { outcome } = await callersEnd(pair);
  assert.equal(outcome, "completed by downstream");
  assert.deepEqual(refusing(pair), []);
});
