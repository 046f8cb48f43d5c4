/**
 * Callers without a certificate, and callers above a limit: neither takes the places of callers that are
 * served, nor those reserved for the application's own calls.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { openClient, type TestClient } from "../kit/engine/data_path.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { upstreamOf } from "../kit/engine/snapshots.ts";

async function greet(client: TestClient): Promise<void> {
  client.send("hello");
  assert.equal(String(await client.read(5)), "hello");
}

/** Connects that many times and never sends a byte. */
async function keepSilent(port: number, count: number) {
  const sockets = Array.from({ length: count }, () => connect({ port, host: "127.0.0.1" }));
  await Promise.all(sockets.map((socket) =>
    new Promise<void>((resolve) => {
      socket.on("error", () => resolve());
      socket.once("connect", () => resolve());
    })
  ));
  return { [Symbol.dispose]: () => sockets.forEach((socket) => socket.destroy()) };
}

function endings(pair: PathPair, outcome: string): number {
  const samples = pair.db.path.stats.samples();
  return samples.find(({ name, labels }) =>
    name === "connections_ended_total" && labels.outcome === outcome
  )?.value ?? 0;
}

test("silent strangers beyond the connection limit keep no caller out", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, db: { maxConnections: 40 } });
  await using open = await openClient(pair.port);
  await greet(open);
  using _silent = await keepSilent(pair.db.port(), 100);
  await pair.line(({ fields }) => fields.code === "handshake_crowded_out");
  for (let call = 0; call < 10; call++) {
    await using client = await openClient(pair.port);
    await greet(client);
  }
  await greet(open);
  // 24 handshakes may be under way, and 48 for a moment.
  assert.ok(endings(pair, "handshake_crowded_out") >= 52);
  const lines = pair.lines.filter(({ fields }) => fields.code === "handshake_crowded_out");
  assert.ok(lines.length < 30, `${lines.length} lines`);
});

test("callers of the service leave places for calls that its application makes", async () => {
  await using echo = await startEcho();
  await using pair = await startPathPair({ localPort: echo.port, db: { maxConnections: 16 } });
  const other = upstreamOf({ name: "other" });
  await pair.db.set({ ...pair.dbSnapshot, upstreams: { [other.id]: other } });
  const clients: TestClient[] = [];
  for (let call = 0; call < 14; call++) {
    const client = await openClient(pair.port);
    clients.push(client);
    await greet(client);
  }
  await using late = await openClient(pair.port);
  await late.gone;
  const { fields } = await pair.line(({ fields }) => fields.code === "overloaded");
  assert.equal(fields.reason, "14 of 16 connections are inbound; the rest is kept for upstreams");
  await using own = await openClient(pair.db.port("other"));
  await own.gone;
  await pair.line(({ fields }) => fields.code === "no_endpoint");
  // Without upstreams there is nothing to keep.
  await pair.db.set(pair.dbSnapshot);
  await using more = await openClient(pair.port);
  await greet(more);
  for (const client of clients) client.socket.destroy();
});
