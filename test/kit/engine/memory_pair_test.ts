import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../clock/clock.ts";
import { MemoryConnection, memoryPair } from "./memory_pair.ts";
import type { StreamEvents } from "../../../src/net/port.ts";

/** All events of one end. */
function listen(connection: MemoryConnection): string[] {
  const events: string[] = [];
  connection.events = {
    onData: (chunk) => events.push(String.fromCharCode(...chunk)),
    onEnd: () => events.push("(end)"),
    onDrain: () => events.push("(drain)"),
    onClose: (reset) => events.push(reset ? "(reset)" : "(close)"),
  } satisfies StreamEvents;
  return events;
}

function setUp(capacityBytes?: number) {
  const [one, other] = memoryPair(capacityBytes === undefined ? {} : { capacityBytes });
  return { one, other, toOne: listen(one), toOther: listen(other) };
}

const bytes = (text: string) => new TextEncoder().encode(text);

test("memoryPair() carries bytes in order, and not within the call", async () => {
  const { one, toOther } = setUp();
  assert.equal(one.write(bytes("a")), true);
  assert.equal(one.write(bytes("b")), true);
  assert.deepEqual(toOther, []);
  await settle();
  assert.deepEqual(toOther, ["a", "b"]);
});

test("memoryPair() ends halves one by one, then closes both ends", async () => {
  const { one, other, toOne, toOther } = setUp();
  one.write(bytes("a"));
  one.end();
  one.write(bytes("too late"));
  await settle();
  assert.deepEqual(toOther, ["a", "(end)"]);
  other.write(bytes("b"));
  await settle();
  assert.deepEqual(toOne, ["b"]);
  other.end();
  await settle();
  assert.deepEqual(toOne, ["b", "(end)", "(close)"]);
  assert.deepEqual(toOther, ["a", "(end)", "(close)"]);
});

test("memoryPair() stops a writer at its capacity and signals it when all was delivered", async () => {
  const { one, other, toOne, toOther } = setUp(2);
  other.pause();
  assert.equal(one.write(bytes("ab")), true);
  assert.equal(one.write(bytes("c")), false);
  await settle();
  assert.deepEqual(toOther, []);
  assert.deepEqual(toOne, []);
  other.resume();
  await settle();
  assert.deepEqual(toOther, ["ab", "c"]);
  assert.deepEqual(toOne, ["(drain)"]);
  assert.equal(one.write(bytes("d")), true);
});

test("memoryPair() signals a writer as soon as no more waits than its capacity", async () => {
  const { one, other, toOne, toOther } = setUp(2);
  other.pause();
  assert.equal(one.write(bytes("a")), true);
  assert.equal(one.write(bytes("bc")), false);
  const { events } = other;
  other.events = {
    ...events,
    onData: (chunk) => {
      events.onData(chunk);
      other.pause();
    },
  };
  other.resume();
  await settle();
  assert.deepEqual([toOther, toOne], [["a"], ["(drain)"]]);
});

test("memoryPair() discards bytes written after the end", async () => {
  const { one, other, toOther } = setUp(2);
  one.end();
  assert.equal(one.write(bytes("abc")), true);
  other.end();
  await settle();
  assert.equal(one.write(bytes("abc")), true);
  assert.deepEqual(toOther, ["(end)", "(close)"]);
});

test("memoryPair() keeps the end behind bytes that wait", async () => {
  const { one, other, toOther } = setUp();
  other.pause();
  one.write(bytes("a"));
  one.end();
  await settle();
  assert.deepEqual(toOther, []);
  other.resume();
  await settle();
  assert.deepEqual(toOther, ["a", "(end)"]);
});

test("memoryPair() reset() breaks both ends and loses bytes in flight", async () => {
  const { one, toOne, toOther } = setUp();
  one.write(bytes("a"));
  one.reset();
  one.reset();
  await settle();
  assert.deepEqual(toOther, ["(reset)"]);
  assert.deepEqual(toOne, ["(close)"]);
});

test("memoryPair() close() does not wait for the peer, whose next write is reset", async () => {
  const { one, other, toOne, toOther } = setUp();
  other.write(bytes("unread"));
  one.write(bytes("a"));
  one.close();
  await settle();
  assert.deepEqual(toOne, ["(close)"]);
  assert.deepEqual(toOther, ["a", "(end)"]);
  other.write(bytes("b"));
  await settle();
  assert.deepEqual(toOther, ["a", "(end)", "(reset)"]);
  assert.equal(other.closed, true);
});
