import assert from "node:assert/strict";
import test from "node:test";
import { cpuMs } from "../../../test/kit/cpu_time.ts";
import { readProtobuf } from "./protobuf.ts";

const DESCRIPTOR = JSON.stringify({
  nested: {
    test: {
      nested: {
        Leaf: { fields: { name: { type: "string", id: 1 } } },
        Branch: { fields: { leaves: { rule: "repeated", type: "Leaf", id: 1 } } },
        Tree: {
          fields: {
            branch: { type: "Branch", id: 1 },
            texts: { rule: "repeated", type: "string", id: 2 },
            byName: { keyType: "string", type: "bytes", id: 3 },
            kind: { type: "Kind", id: 4 },
          },
        },
        Kind: { values: { NONE: 0, SOME: 1 } },
      },
    },
  },
});

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

test("Protobuf.decode() takes messages, maps and enums as they are", async () => {
  const protobuf = await readProtobuf("test", DESCRIPTOR);
  const message = {
    branch: { leaves: [{ name: "a" }, {}] },
    texts: ["b", ""],
    byName: { c: Uint8Array.of(1) },
    kind: "SOME",
  };
  const decoded = protobuf.decode("Tree", protobuf.encode("Tree", message), { bytes: "binary" });
  assert.deepEqual(JSON.parse(JSON.stringify(decoded)), {
    ...message,
    byName: JSON.parse(JSON.stringify({ c: Buffer.of(1) })),
  });
  const many = protobuf.decode("Tree", field(0x0a, repeated(100_000, 0x0a, 0)), {
    bytes: "binary",
  });
  assert.equal((many.branch as { leaves: unknown[] }).leaves.length, 100_000);
});

// Each takes two bytes, and a hundred times that once it is decoded.
for (
  const [name, bytes] of [
    ["texts", repeated(8_000_000, 0x12, 0)],
    ["messages in a message", field(0x0a, repeated(8_000_000, 0x0a, 0))],
    ["entries of a map", repeated(8_000_000, 0x1a, 0)],
    ["unknown fields", repeated(8_000_000, 0x7a, 0)],
  ] as const
) {
  test(`Protobuf.decode() refuses millions of empty ${name} at once`, async () => {
    const protobuf = await readProtobuf("test", DESCRIPTOR);
    const startMs = cpuMs();
    assert.throws(
      () => protobuf.decode("Tree", bytes, { bytes: "binary" }),
      /it has more than 200000 fields/,
    );
    assert.ok(cpuMs() - startMs < 1_000);
  });
}

for (
  const [name, bytes] of [
    ["a length beyond the end", [0x0a, 0x7f, 0x0a]],
    ["an inner length beyond the end", [0x0a, 0x02, 0x0a, 0x7f]],
    ["a cut number", [0xff, 0xff]],
    ["a group without an end", [0x2b, 0x2b, 0x2b]],
  ] as const
) {
  test(`Protobuf.decode() throws on ${name}`, async () => {
    const protobuf = await readProtobuf("test", DESCRIPTOR);
    assert.throws(() => protobuf.decode("Tree", Uint8Array.from(bytes), { bytes: "binary" }));
  });
}
