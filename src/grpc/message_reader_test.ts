import assert from "node:assert/strict";
import test from "node:test";
import { type BegunBytes, framed, MessageReader } from "./message_reader.ts";
import { formatStatus } from "./types.ts";

const LIMIT_BYTES = 20_000;

function begunBytes(limitBytes = 1e9): BegunBytes {
  return { bytes: 0, limitBytes };
}

/** The messages that are read from chunks. */
function read(reader: MessageReader, chunks: readonly Uint8Array[]): Uint8Array[] {
  const messages: Uint8Array[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let next = reader.next(); next; next = reader.next()) messages.push(next);
    if (reader.fault) break;
  }
  return messages;
}

function piecesOf(bytes: Uint8Array, size: number): Uint8Array[] {
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, at) => bytes.slice(at * size, (at + 1) * size));
}

const MESSAGES = [[1, 2, 3], [], [4], Array.from({ length: 9_000 }, (_, at) => at % 251)]
  .map((octets) => Uint8Array.from(octets));
const WIRE = new Uint8Array(Buffer.concat(MESSAGES.map(framed)));

for (const size of [1, 2, 4, 5, 6, 7, 100, 4_096, 9_017, WIRE.length]) {
  test(`MessageReader reads the same from pieces of ${size} bytes`, () => {
    const begun = begunBytes();
    const reader = new MessageReader(LIMIT_BYTES, begun);
    assert.deepEqual(read(reader, piecesOf(WIRE, size)), MESSAGES);
    assert.equal(reader.isWithin, false);
    assert.deepEqual([reader.fault, begun.bytes], [undefined, 0]);
  });
}

test("MessageReader reads a message at the limit, and refuses one above it", () => {
  const at = new MessageReader(3, begunBytes());
  assert.equal(read(at, [framed(new Uint8Array(3))]).length, 1);
  const above = new MessageReader(3, begunBytes());
  assert.deepEqual(read(above, [framed(new Uint8Array(4))]), []);
  assert.equal(
    above.fault && formatStatus(above.fault),
    "RESOURCE_EXHAUSTED: a message of 4 bytes is above the limit of 3",
  );
});

test("MessageReader allocates for received bytes, not for the claimed length", () => {
  const begun = begunBytes();
  const reader = new MessageReader(1 << 24, begun);
  read(reader, [Uint8Array.of(0, 1, 0, 0, 0), ...piecesOf(new Uint8Array(5_000), 1)]);
  assert.equal(reader.isWithin, true);
  assert.equal(begun.bytes, 8_192);
  reader.drop();
  assert.deepEqual([reader.isWithin, begun.bytes], [false, 0]);
});

test("MessageReader counts a message's bytes until the next one is read", () => {
  const begun = begunBytes();
  const reader = new MessageReader(LIMIT_BYTES, begun);
  for (const chunk of piecesOf(framed(new Uint8Array(5_000)), 4_000)) {
    reader.push(chunk);
    reader.next();
  }
  assert.deepEqual([reader.isWithin, begun.bytes], [false, 5_000]);
  reader.next();
  assert.equal(begun.bytes, 0);
});

test("MessageReader refuses a message while those of other calls hold too many bytes", () => {
  const begun = begunBytes(10_000);
  const [one, other] = [new MessageReader(20_000, begun), new MessageReader(20_000, begun)];
  const half = framed(new Uint8Array(9_000)).subarray(0, 6_000);
  read(one, [half]);
  read(other, [half]);
  assert.equal(one.fault, undefined);
  assert.match(other.fault?.details ?? "", /^messages that have begun hold more than 10000 bytes$/);
  one.drop();
  const again = new MessageReader(20_000, begun);
  read(again, [half]);
  assert.equal(again.fault, undefined);
});

for (
  const [flags, wanted] of [[1, /compressed/], [2, /not framed/], [0x48, /not framed/]] as const
) {
  test(`MessageReader refuses a prefix that begins with ${flags}`, () => {
    const reader = new MessageReader(LIMIT_BYTES, begunBytes());
    assert.deepEqual(read(reader, [Uint8Array.of(flags, 0, 0, 0, 1, 7)]), []);
    assert.match(reader.fault?.details ?? "", wanted);
  });
}
