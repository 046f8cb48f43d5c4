import assert from "node:assert/strict";
import { test } from "node:test";
import { drop, flush, join, type JoinedWrites, type JoiningStream } from "./turn.ts";

class FakeStream implements JoiningStream {
  joined: JoinedWrites | undefined;
  readonly sent: string[] = [];
  takes = true;
  onSend = () => {};

  send(bytes: Uint8Array, length: number): boolean {
    this.sent.push(new TextDecoder().decode(bytes.subarray(0, length)));
    this.onSend();
    return this.takes;
  }

  join(text: string): boolean {
    return join(this, new TextEncoder().encode(text));
  }
}

const turn = () => new Promise<void>((resolve) => queueMicrotask(resolve));

test("join() sends once, at the end of the turn, and each turn anew", async () => {
  const stream = new FakeStream();
  const other = new FakeStream();
  for (const text of ["a", "b", "", "c"]) assert.equal(stream.join(text), true);
  other.join("d");
  assert.deepEqual(stream.sent, []);
  await turn();
  assert.deepEqual(stream.sent, ["abc"]);
  assert.deepEqual(other.sent, ["d"]);
  stream.join("e");
  await turn();
  assert.deepEqual(stream.sent, ["abc", "e"]);
  assert.deepEqual(other.sent, ["d"]);
});

test("join() copies: the caller may reuse the memory at once", async () => {
  const stream = new FakeStream();
  const scratch = new Uint8Array([97]);
  join(stream, scratch);
  scratch[0] = 98;
  join(stream, scratch);
  await turn();
  assert.deepEqual(stream.sent, ["ab"]);
});

test("join() does not join a large chunk as the first", async () => {
  const stream = new FakeStream();
  assert.equal(stream.join("x".repeat(16_383)), true);
  // After joined bytes it is joined while there is room.
  assert.equal(stream.join("y".repeat(16_384)), true);
  await turn();
  assert.equal(stream.join("z".repeat(16_384)), false);
  assert.deepEqual(stream.sent.map(({ length }) => length), [32_767]);
});

test("join() sends a full buffer within the turn, then joins again", async () => {
  const stream = new FakeStream();
  for (let index = 0; index < 70; index++) assert.equal(stream.join("x".repeat(1_024)), true);
  assert.deepEqual(stream.sent.map(({ length }) => length), [65_536]);
  await turn();
  assert.deepEqual(stream.sent.map(({ length }) => length), [65_536, 6 * 1_024]);
});

test("join() joins nothing after bytes that wait", async () => {
  const stream = new FakeStream();
  stream.join("x".repeat(16_000));
  stream.takes = false;
  assert.equal(stream.join("y".repeat(60_000)), false);
  await turn();
  assert.deepEqual(stream.sent.map(({ length }) => length), [16_000]);
});

test("join() is for sixteen streams at a time", async () => {
  for (let round = 0; round < 2; round++) {
    const streams = Array.from({ length: 17 }, () => new FakeStream());
    assert.deepEqual(streams.map((stream) => stream.join("x")), [...Array(16).fill(true), false]);
    await turn();
    assert.equal(streams.flatMap(({ sent }) => sent).length, 16);
  }
});

test("flush() sends at once, drop() never", async () => {
  const stream = new FakeStream();
  stream.join("a");
  assert.equal(flush(stream), true);
  assert.deepEqual(stream.sent, ["a"]);
  stream.join("b");
  drop(stream);
  await turn();
  assert.deepEqual(stream.sent, ["a"]);
  stream.takes = false;
  stream.join("c");
  assert.equal(flush(stream), false);
});

test("a stream written to while a turn ends is part of it", async () => {
  const stream = new FakeStream();
  const other = new FakeStream();
  stream.onSend = () => other.join("because of it");
  stream.join("a");
  await turn();
  assert.deepEqual(other.sent, ["because of it"]);
});
