/**
 * Messages of gRPC and their contents: however the bytes are cut the same messages and the same fault
 * come out, a begun message holds little, and decoded contents are the same when they are written and
 * read again.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Random } from "../../src/base/mod.ts";
import { framed, MessageReader } from "../../src/grpc/message_reader.ts";
import { Protobuf } from "../../src/wire/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

const LIMIT_BYTES = 500;

const protobuf = new Protobuf({
  Tree: {
    branches: "1 repeated Tree",
    texts: "2 repeated string",
    byName: "3 map bytes",
    treeOf: "4 map Tree",
    kind: "5 enum NONE SOME",
    count: "6 int32",
    large: "7 int64",
    unsigned: "8 uint32",
    ratio: "9 double",
    is: "10 bool",
    one: "11 oneof string",
    other: "12 oneof bytes",
    serial: "13 uint64",
  },
});

const TREE = protobuf.encode("Tree", {
  branches: [{ texts: ["a", "ü"], one: "b" }, { other: Uint8Array.of(1, 2) }],
  byName: { c: Uint8Array.of(3) },
  serial: "18446744073709551615",
  treeOf: { d: { kind: "SOME", count: -1, large: 2 ** 40, unsigned: 300, ratio: 1.5, is: true } },
});

function read(chunks: Iterable<Uint8Array>) {
  const begun = { bytes: 0, limitBytes: LIMIT_BYTES };
  const reader = new MessageReader(LIMIT_BYTES, begun);
  const messages: Uint8Array[] = [];
  for (const chunk of chunks) {
    if (reader.fault) break;
    reader.push(chunk);
    for (let next = reader.next(); next; next = reader.next()) messages.push(next);
    assert.ok(begun.bytes <= LIMIT_BYTES);
  }
  const hex = messages.map((message) => Buffer.from(message).toString("hex"));
  return { messages, result: { hex, fault: reader.fault, isWithin: reader.isWithin } };
}

function* piecesOf(input: Uint8Array, random: Random): Generator<Uint8Array> {
  for (let at = 0; at < input.length;) {
    const size = 1 + Math.floor(random() * 20);
    yield input.slice(at, at + size);
    at += size;
  }
}

/** Undefined: it is no such message. */
function decoded(bytes: Uint8Array) {
  try {
    return protobuf.decode("Tree", bytes);
  } catch (error) {
    assert.ok(error instanceof RangeError || error instanceof TypeError, String(error));
    return undefined;
  }
}

export const target: FuzzTarget = {
  name: "grpc_messages",
  corpus: [
    framed(TREE),
    Uint8Array.from(Buffer.concat([framed(new Uint8Array()), framed(TREE), framed(TREE)])),
  ],
  run(input, random) {
    const whole = read([input.slice()]);
    assert.deepEqual(read(piecesOf(input, random)).result, whole.result);
    for (const message of [...whole.messages, input]) {
      const tree = decoded(message);
      if (!tree) continue;
      // Values without a name cannot be written.
      const kinds = JSON.stringify(tree).match(/"kind":-?\d/);
      if (!kinds) assert.deepEqual(protobuf.decode("Tree", protobuf.encode("Tree", tree)), tree);
    }
  },
};
