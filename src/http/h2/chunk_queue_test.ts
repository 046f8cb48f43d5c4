import assert from "node:assert/strict";
import test from "node:test";
import { seededRandom } from "../../base/mod.ts";
import { ChunkQueue } from "./chunk_queue.ts";

test("ChunkQueue returns all bytes in order, in chunks up to the limit", () => {
  const random = seededRandom(3);
  const below = (limit: number) => Math.floor(random() * limit);
  const queue = new ChunkQueue();
  const given: number[] = [];
  const taken: number[] = [];
  // A chunk that was taken belongs to its receiver, and must not change.
  const chunks: { readonly chunk: Uint8Array; readonly copy: Uint8Array }[] = [];
  const take = () => {
    const limit = 1 + below(3_000);
    const chunk = queue.take(limit);
    assert.ok(chunk.length > 0 && chunk.length <= limit);
    chunks.push({ chunk, copy: new Uint8Array(chunk) });
    taken.push(...chunk);
    assert.equal(queue.bytes, given.length - taken.length);
  };
  for (let round = 0; round < 2_000; round++) {
    const size = below(4) === 0 ? below(3_000) : below(100);
    const chunk = Uint8Array.from({ length: size }, () => below(256));
    given.push(...chunk);
    queue.push(chunk);
    if (below(50) === 0) { while (queue.bytes > 0) take(); }
    else if (below(3) === 0 && queue.bytes > 0) take();
  }
  while (queue.bytes > 0) take();
  assert.ok(Buffer.from(taken).equals(Buffer.from(given)));
  for (const { chunk, copy } of chunks) assert.deepEqual(chunk, copy);
});

test("ChunkQueue joins bytes that come one by one in little more than their own memory", () => {
  const queue = new ChunkQueue();
  for (let i = 0; i < 10_000; i++) queue.push(Uint8Array.of(i));
  let memory = 0;
  while (queue.bytes > 0) memory += queue.take(Infinity).buffer.byteLength;
  assert.ok(memory <= 12_000, String(memory));
});

test("ChunkQueue copies a small part of a large read, and does not copy a large part", () => {
  const queue = new ChunkQueue();
  const read = new Uint8Array(65_536).fill(1);
  queue.push(read.subarray(100, 8_292));
  queue.push(read.subarray(0, 32_768));
  const [small, large] = [queue.take(Infinity), queue.take(Infinity)];
  assert.deepEqual([small.length, small.buffer.byteLength, small[0]], [8_192, 8_192, 1]);
  assert.equal(large.buffer, read.buffer);
});
