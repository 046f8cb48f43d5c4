import test from "node:test";
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { Load } from "../kit/wire/load.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { residentBytes } from "../kit/process/memory.ts";
import { eventually, pause } from "../kit/process/process.ts";

const SLOW = 1_000;
/** The beginning of a ClientHello: enough to look like TLS, never enough to go on. */
const HALF_HELLO = Uint8Array.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01]);

test("1,000 callers that never finish the handshake are dropped; others do not notice", async () => {
  await using server = await startConsul();
  await using pair = await startMeshPair(server);
  await waitForEcho(pair.upstream);
  const { db } = pair;
  const before = await residentBytes(db.pid);
  let open = 0;
  const sockets: Socket[] = [];
  for (let i = 0; i < SLOW; i++) {
    const socket = connect(pair.public);
    socket.on("connect", () => {
      open++;
      socket.on("close", () => open--);
      // Half of them send nothing at all.
      if (i % 2 === 0) socket.write(HALF_HELLO);
    });
    socket.on("error", () => {});
    socket.resume();
    sockets.push(socket);
  }
  try {
    await eventually("all are connected", () => open >= SLOW * 0.99);
    await using load = new Load(pair.upstream);
    await pause(3_000);
    pair.expectFlawless(await load.stop({ atLeast: 200 }), { atLeast: 200 });
    const grown = await residentBytes(db.pid) - before;
    assert.ok(grown < SLOW * 100_000, `grew by ${Math.round(grown / 1e6)} MB`);
    // handshake_timeout_ms is 10 s by default.
    await eventually("all are dropped", () => open === 0, { timeoutMs: 60_000 });
    await waitForEcho(pair.upstream);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});
