import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import { type PlainMessage, Protobuf } from "./protobuf.ts";

const protobuf = new Protobuf({
  Leaf: { name: "1 string" },
  Branch: { leaves: "1 repeated Leaf" },
  Tree: {
    branch: "1 Branch",
    texts: "2 repeated string",
    byName: "3 map bytes",
    kind: "4 enum NONE SOME",
    leafOf: "5 map Leaf",
    count: "6 int32",
    large: "7 int64",
    unsigned: "8 uint32",
    ratio: "9 double",
    is: "10 bool",
    key: "11 bytes",
    one: "12 oneof string",
    other: "13 oneof int32",
    third: "14 oneof Leaf",
    serial: "15 uint64",
  },
});

const encode = (message: PlainMessage) => Buffer.from(protobuf.encode("Tree", message));
const decode = (bytes: Uint8Array) => protobuf.decode("Tree", bytes);

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, "hex"));
}

function repeated(count: number, ...bytes: number[]): Uint8Array {
  return new Uint8Array(Buffer.alloc(count * bytes.length, Buffer.from(bytes)));
}

/** One field of bytes. */
function field(tag: number, content: Uint8Array): Uint8Array {
  const length: number[] = [];
  let rest = content.length;
  for (; rest > 0x7f; rest >>>= 7) length.push(rest & 0x7f | 0x80);
  return Uint8Array.from(Buffer.concat([Buffer.of(tag, ...length, rest), content]));
}

// Written by hand, from the specification of the encoding.
for (
  const [message, hex] of [
    [{ branch: { leaves: [{ name: "a" }, {}] } }, "0a070a030a01610a00"],
    [{ texts: ["b", "", "ü"] }, "12016212001202c3bc"],
    [{ byName: { c: Uint8Array.of(1) } }, "1a060a0163120101"],
    [{ kind: "SOME" }, "2001"],
    [{ leafOf: { d: { name: "e" } } }, "2a080a016412030a0165"],
    [{ count: -2 }, "30feffffffffffffffff01"],
    [{ large: 2 ** 40 + 5 }, "38858080808020"],
    [{ large: -(2 ** 40) }, "388080808080e0ffffff01"],
    [{ large: 2 ** 53 - 1 }, "38ffffffffffffff0f"],
    [{ serial: "9007199254740993" }, "788180808080808010"],
    [{ serial: "18446744073709551615" }, "78ffffffffffffffffff01"],
    [{ unsigned: 4_294_967_295 }, "40ffffffff0f"],
    [{ ratio: -1.5 }, "49000000000000f8bf"],
    [{ is: true, key: Uint8Array.of(9, 8) }, "50015a020908"],
    [{ one: "" }, "6200"],
    [{ other: 0 }, "6800"],
    [{ third: {} }, "7200"],
    [{}, ""],
  ] as const
) {
  test(`Protobuf writes and reads ${hex || "nothing"}`, () => {
    assert.equal(encode(message).toString("hex"), hex);
    assert.deepEqual(decode(bytesOf(hex)), message);
  });
}

test("Protobuf leaves out default values, written or read", () => {
  const nothing = { kind: "NONE", count: 0, large: 0, ratio: 0, is: false, key: new Uint8Array() };
  assert.equal(encode({ ...nothing, one: undefined }).length, 0);
  assert.deepEqual(decode(bytesOf("2000300038005a00")), {});
  assert.deepEqual(decode(bytesOf("30013000")), {}, "the last value counts");
});

for (
  const [name, hex, wanted] of [
    ["keeps the last field of a oneof", "6201616801", { other: 1 }],
    ["skips a number", "f807ff01", {}],
    ["skips eight bytes", "f9070000000000000000", {}],
    ["skips some bytes", "fa07020102", {}],
    ["skips four bytes", "fd0700000000", {}],
    ["skips a field with another wire type", "0801", {}],
    ["reads an unknown enum value as its number", "2007", { kind: 7 }],
    ["reads 64 bits as a flag", "50808080808001", { is: true }],
    ["fills missing parts of a map entry", "1a0012001a021200", {
      byName: { "": new Uint8Array() },
      texts: [""],
    }],
  ] as const
) {
  test(`Protobuf.decode() ${name}`, () => assert.deepEqual(decode(bytesOf(hex)), wanted));
}

test("Protobuf.decode() keeps the prototype of a map, whatever its keys", () => {
  const map = decode(Buffer.from("1a0e0a095f5f70726f746f5f5f120101", "hex")).byName as object;
  assert.equal(Object.getPrototypeOf(map), Object.prototype);
  assert.deepEqual(Object.keys(map), ["__proto__"]);
});

test("Protobuf.decode() reads a hundred thousand messages in one", () => {
  const { branch } = decode(field(0x0a, repeated(100_000, 0x0a, 0)));
  assert.equal((branch as { leaves: unknown[] }).leaves.length, 100_000);
});

// Each takes two bytes, and a hundred times as much when decoded.
for (
  const [name, bytes] of [
    ["texts", repeated(8_000_000, 0x12, 0)],
    ["messages in a message", field(0x0a, repeated(8_000_000, 0x0a, 0))],
    ["entries of a map", repeated(8_000_000, 0x1a, 0)],
    ["unknown fields", repeated(8_000_000, 0x7a, 0)],
  ] as const
) {
  test(`Protobuf.decode() refuses millions of empty ${name} at once`, () => {
    const startMs = cpuMs();
    assert.throws(() => decode(bytes), /it has more than 200000 fields/);
    assert.ok(cpuMs() - startMs < 1_000);
  });
}

for (
  const [name, bytes] of [
    ["a length beyond the end", [0x12, 0x7f, 0x0a]],
    ["a length of more than 32 bits", [0x12, 0x80, 0x80, 0x80, 0x80, 0x20]],
    ["an inner length beyond the end", [0x0a, 0x02, 0x0a, 0x7f]],
    ["an inner length beyond its message", [0x0a, 0x02, 0x0a, 0x01, 0x12, 0x00]],
    ["a length beyond its entry", [0x1a, 0x02, 0x12, 0x01, 0x12, 0x00]],
    ["an incomplete number", [0x30, 0xff]],
    ["a cut tag", [0xff, 0xff]],
    ["a number of eleven bytes", [0x30, ...new Array(10).fill(0xff), 1]],
    ["an incomplete double", [0x49, 0, 0, 0]],
    ["an incomplete fixed32", [0xfd, 0x07, 0, 0]],
    ["the number 0", [0x02, 0x00]],
    ["a group", [0x2b, 0x2c]],
    ["text that is no UTF-8", [0x12, 0x01, 0xff]],
  ] as const
) {
  test(`Protobuf.decode() throws on ${name}`, () => {
    assert.throws(() => decode(Uint8Array.from(bytes)));
  });
}
