import test from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { startConsul } from "../kit/mesh/consul.ts";
import { EchoClient, pattern, waitForEcho } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { eventually, pause } from "../kit/process/process.ts";

const STOPPED_MS = 4_000;

for (const side of ["web", "db"] as const) {
  test(`${side}'s sidecar is stopped and goes on: open connections lose no byte`, async () => {
    await using server = await startConsul();
    await using pair = await startMeshPair(server);
    await waitForEcho(pair.upstream);
    const clients = await Promise.all(
      Array.from({ length: 10 }, () => EchoClient.open(pair.upstream)),
    );
    for (const [i, client] of clients.entries()) await client.exchange(pattern(i, 10_000));

    pair[side].kill("SIGSTOP");
    // More than all buffers on the way hold, so that it is in the middle of something.
    const answers = clients.map((client, i) =>
      client.exchange(megabytes(4, i), { timeoutMs: STOPPED_MS + 60_000 })
    );
    await pause(STOPPED_MS);
    pair[side].kill("SIGCONT");
    await Promise.all(answers);
    for (const client of clients) await client.finish({ timeoutMs: 30_000 });
    await waitForEcho(pair.upstream);
  });
}

test("a new connection while db's sidecar is stopped is given up, not kept for ever", async () => {
  await using server = await startConsul();
  await using pair = await startMeshPair(server, {
    webUpstream: { config: { connect_timeout_ms: 1_000 } },
  });
  await waitForEcho(pair.upstream);
  pair.db.kill("SIGSTOP");
  // A connection that shakes hands before the signal has come is open, and open connections are kept.
  const { pid } = pair.db.process;
  await eventually("the sidecar is stopped", () => {
    return /\) T /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  });
  try {
    const started = performance.now();
    const client = await EchoClient.open(pair.upstream);
    await assert.rejects(client.exchange(pattern(1, 1_000), { timeoutMs: 60_000 }));
    assert.ok(client.isOver, "held open without an answer");
    const took = performance.now() - started;
    assert.ok(took < 20_000, `given up after ${took} ms; connect_timeout_ms is 1000`);
    client.destroy();
  } finally {
    pair.db.kill("SIGCONT");
  }
  await waitForEcho(pair.upstream);
});

function megabytes(count: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(count * 1_000_000);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (seed + i * 7 + (i >> 10)) & 0xff;
  return bytes;
}
