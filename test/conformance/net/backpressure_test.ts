/**
 * The contract of backpressure: a peer that does not read stops the writer with little in memory, one
 * that reads slowly gets everything.
 *
 * @module
 */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import process from "node:process";
import { test } from "node:test";
import { openPair, quiet, type Side } from "./kit.ts";

const BLOCK = randomBytes(65_536);

/**
 * Writes until `write` says stop, again at each drain, at most `limit` bytes; returns the bytes taken.
 */
function pour(side: Side, limit: number): { taken: number } {
  const state = { taken: 0 };
  const more = () => {
    while (state.taken < limit) {
      state.taken += BLOCK.length;
      if (!side.connection.write(BLOCK)) return;
    }
  };
  side.onDrain = more;
  more();
  return state;
}

for (const kind of ["plain", "tls"] as const) {
  test(`a ${kind} peer that does not read stops the writer`, async () => {
    await using pair = await openPair(kind);
    const { client, server } = pair;
    server.connection.pause();
    const before = process.memoryUsage().rss;
    const poured = pour(client, 512 * 1024 * 1024);
    let last = -1;
    while (last !== poured.taken) {
      last = poured.taken;
      await quiet(50);
    }
    // The kernel's own buffers hold several megabytes on both sides.
    assert.ok(poured.taken < 40_000_000, `${poured.taken} bytes were taken`);
    assert.equal(server.size, 0);
    const grown = process.memoryUsage().rss - before;
    assert.ok(grown < 48_000_000, `resident memory grew by ${grown} bytes`);
  });

  test(`a ${kind} peer that reads in bites gets 40 MB unchanged`, async () => {
    await using pair = await openPair(kind);
    const { client, server } = pair;
    const total = 640 * BLOCK.length;
    const want = createHash("sha256");
    for (let index = 0; index < 640; index++) want.update(BLOCK);
    const got = createHash("sha256");
    let bites = 0;
    server.onChunk = (chunk) => {
      got.update(chunk);
      if (++bites % 16 !== 0) return;
      server.connection.pause();
      setImmediate(() => server.connection.resume());
    };
    const poured = pour(client, total);
    await server.until(
      () => server.size === total,
      () => `${server.size} of ${poured.taken} bytes written of ${total}`,
    );
    assert.equal(got.digest("hex"), want.digest("hex"));
  });

  test(`a ${kind} peer that never reads can be reset`, async () => {
    await using pair = await openPair(kind);
    const { client, server } = pair;
    server.connection.pause();
    pour(client, 64 * 1024 * 1024);
    await quiet();
    client.connection.reset();
    await client.over();
    server.connection.resume();
    await server.over();
    assert.equal(server.events.at(-1), "reset");
  });

  test(`a ${kind} stream flows both ways at once through small and large chunks`, async () => {
    await using pair = await openPair(kind);
    const total = 8 * 1024 * 1024;
    const hashes = [pair.client, pair.server].map((side) => {
      const hash = createHash("sha256");
      side.onChunk = (chunk) => void hash.update(chunk);
      return hash;
    });
    const want = createHash("sha256");
    const chunks: Uint8Array[] = [];
    for (let size = 1, sum = 0; sum < total; size = (size * 7 + 3) % 300_000) {
      const chunk = randomBytes(Math.min(size, total - sum));
      chunks.push(chunk);
      want.update(chunk);
      sum += chunk.length;
    }
    const expected = want.digest("hex");
    for (const side of [pair.client, pair.server]) {
      let next = 0;
      const more = () => {
        while (next < chunks.length) {
          if (!side.connection.write(chunks[next++] as Uint8Array)) return;
        }
        side.connection.end();
      };
      side.onDrain = more;
      more();
    }
    await Promise.all([pair.client.over(), pair.server.over()]);
    assert.deepEqual(hashes.map((hash) => hash.digest("hex")), [expected, expected]);
  });
}
