import assert from "node:assert/strict";
import test from "node:test";
import { seededRandom } from "../../../base/mod.ts";
import { HpackDecoder } from "./decoder.ts";
import { FIELD_ROOM_BYTES, HpackEncoder } from "./encoder.ts";
import { huffmanDecode, huffmanDecodedLimit, huffmanEncode, huffmanLength } from "./huffman.ts";

type Pairs = readonly (readonly [name: string, value: string])[];

function hex(text: string): Uint8Array {
  return Uint8Array.from(text.replaceAll(" ", "").match(/../g) ?? [], (two) => parseInt(two, 16));
}

function decode(decoder: HpackDecoder, block: Uint8Array): [string, string][] | string {
  const fields: [string, string][] = [];
  const fault = decoder.decode(block, 0, block.length, {
    onField: ({ text }, value) => fields.push([text, value]),
  });
  return fault === "" ? fields : fault;
}

function encode(encoder: HpackEncoder, fields: Pairs): Uint8Array {
  const room = fields.reduce(
    (sum, [name, value]) => sum + name.length + value.length + FIELD_ROOM_BYTES,
    FIELD_ROOM_BYTES,
  );
  const to = new Uint8Array(room);
  let at = encoder.begin(to, 0);
  for (const [name, value] of fields) at = encoder.field(name, value, to, at);
  return to.subarray(0, at);
}

const FIRST: Pairs = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "www.example.com"],
];
const SECOND: Pairs = [...FIRST, ["cache-control", "no-cache"]];
const THIRD: Pairs = [
  [":method", "GET"],
  [":scheme", "https"],
  [":path", "/index.html"],
  [":authority", "www.example.com"],
  ["custom-key", "custom-value"],
];
const moved = (status: string): Pairs => [
  [":status", status],
  ["cache-control", "private"],
  ["date", "Mon, 21 Oct 2013 20:13:21 GMT"],
  ["location", "https://www.example.com"],
];
const ANSWER: Pairs = [
  [":status", "200"],
  ["cache-control", "private"],
  ["date", "Mon, 21 Oct 2013 20:13:22 GMT"],
  ["location", "https://www.example.com"],
  ["content-encoding", "gzip"],
  ["set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"],
];

/** The first block of C.6 begins with the table size that its text mentions: 256 octets. */
for (
  const [name, blocks] of [
    ["C.3, without Huffman", [
      ["8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST],
      ["8286 84be 5808 6e6f 2d63 6163 6865", SECOND],
      [
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        THIRD,
      ],
    ]],
    ["C.4, with Huffman", [
      ["8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST],
      ["8286 84be 5886 a8eb 1064 9cbf", SECOND],
      ["8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD],
    ]],
    ["C.6, with evictions", [
      [
        "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 " +
        "2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        moved("302"),
      ],
      ["4883 640e ffc1 c0bf", moved("307")],
      [
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 " +
        "821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed " +
        "4ee5 b106 3d50 07",
        ANSWER,
      ],
    ]],
  ] as const
) {
  test(`HpackDecoder reads the blocks of RFC 7541 ${name}`, () => {
    const decoder = new HpackDecoder();
    for (const [block, fields] of blocks) assert.deepEqual(decode(decoder, hex(block)), fields);
  });
}

for (
  const [name, block, fault] of [
    ["index 0", "80", "an index that names no field"],
    ["an index above both tables", "be", "an index that names no field"],
    ["an endless integer", "ff ff ff ff ff ff ff", "an index that names no field"],
    ["an incomplete name", "40 03 61", "a broken name"],
    ["an incomplete value", "41 03 61", "a broken value"],
    ["a missing value", "41", "a broken value"],
    ["the code of the end of string", "41 84 ff ff ff ff", "a broken value"],
    ["padding of eight ones", "41 82 1f ff", "a broken value"],
    ["padding with a zero", "41 81 1e", "a broken value"],
    ["a table above our limit", "3f e2 1f", "a table size above the limit"],
    ["a table size after a field", "82 20", "a table size update out of place"],
    ["three table sizes", "20 20 20", "a table size update out of place"],
  ] as const
) {
  test(`HpackDecoder refuses ${name}`, () => {
    assert.equal(decode(new HpackDecoder(), hex(block)), fault);
  });
}

test("HpackDecoder reports which values are sound", () => {
  for (
    const [value, sound] of [
      ["a b\tc\xe9", true],
      ["", true],
      [" a", false],
      ["a\t", false],
      ["a\nb", false],
      ["a\rb", false],
      ["a\0b", false],
      ["\x7f", false],
    ] as const
  ) {
    const octets = Array.from(value, (character) => character.charCodeAt(0));
    const block = Uint8Array.of(0x40, 1, 0x61, value.length, ...octets, 0xbe);
    const reported: boolean[] = [];
    new HpackDecoder().decode(block, 0, block.length, {
      onField: (_, __, is) => reported.push(is),
    });
    assert.deepEqual(reported, [sound, sound], JSON.stringify(value));
  }
});

test("huffmanDecode() reverses huffmanEncode() for every octet", () => {
  const random = seededRandom(1);
  for (let round = 0; round < 300; round++) {
    const length = round < 256 ? 1 : Math.floor(random() * 200);
    const text = Array.from(
      { length },
      () => String.fromCharCode(round < 256 ? round : Math.floor(random() * 256)),
    ).join("");
    const encoded = new Uint8Array(huffmanLength(text) + 1);
    const end = huffmanEncode(text, encoded, 0);
    assert.equal(end, encoded.length - 1);
    const decoded = new Uint8Array(huffmanDecodedLimit(end));
    const size = huffmanDecode(encoded, 0, end, decoded);
    assert.equal(String.fromCharCode(...decoded.subarray(0, size)), text);
  }
});

test("HpackEncoder writes a repeated field in one octet, and keeps its table equal to the decoder's", () => {
  const encoder = new HpackEncoder();
  const decoder = new HpackDecoder();
  const fields = (id: number): Pairs => [
    [":method", "GET"],
    [":path", "/items"],
    ["x-request-id", `request ${id}`],
    ["user-agent", "test"],
  ];
  let last = new Uint8Array();
  for (let id = 0; id < 2_000; id++) {
    last = encode(encoder, fields(id)) as Uint8Array<ArrayBuffer>;
    assert.deepEqual(decode(decoder, last), fields(id));
  }
  // One octet for each repeated field; the changing id is a literal, and evicts nothing.
  assert.equal(last.length, 3 + 1 + 1 + "x-request-id".length + 1 + "request 1999".length);
});

test("HpackEncoder announces a change of its table size, and nothing else", () => {
  const encoder = new HpackEncoder();
  const announced = (...limits: readonly number[]) => {
    for (const limit of limits) encoder.limitTable(limit);
    return [...encode(encoder, [[":method", "GET"]])].slice(0, -1);
  };
  assert.deepEqual(announced(4_096, 100_000), []);
  assert.deepEqual(announced(0), [0x20]);
  assert.deepEqual(announced(0), []);
  // The smallest size in between is announced, too.
  assert.deepEqual(announced(30), [0x3e]);
  assert.deepEqual(announced(20, 30), [0x34, 0x3e]);
});

test("HpackEncoder indexes fields that were not evicted, and keeps those that may repeat", () => {
  const encoder = new HpackEncoder();
  const sizes = (name: string, values: readonly string[]) =>
    values.map((value) => encode(encoder, [[name, value]]).length);
  const large = Array.from({ length: 6 }, (_, at) => `${at}`.repeat(900));
  sizes("x", large.slice(0, 3));
  sizes("y", large.slice(3));
  // The table has room for four of them.
  assert.deepEqual([...sizes("y", large.slice(3)), ...sizes("x", large.slice(2, 3))], [1, 1, 1, 1]);
  const once = sizes("once", ["aaa 1", "aaa 2", "aaa 3", "aaa 4", "aaa 5", "aaa 6"]);
  const short = once[0] ?? 0;
  assert.deepEqual(once, [short, short, short, short, 1 + 1 + 4 + 1 + 5, 1 + 1 + 4 + 1 + 5]);
  assert.deepEqual(sizes("once", ["again", "again", "again"]).at(-1), 1);
});

test("HpackEncoder never adds a secret to a table", () => {
  const encoder = new HpackEncoder();
  for (const name of ["authorization", "cookie", "set-cookie", "proxy-authorization"]) {
    const blocks = [1, 2, 3].map(() => encode(encoder, [[name, "secret"]]));
    for (const block of blocks) {
      assert.deepEqual(block, blocks[0]);
      assert.equal((block[0] ?? 0) & 0xf0, 0x10);
    }
  }
});

test("HpackDecoder reverses HpackEncoder for random fields and table sizes", () => {
  const random = seededRandom(7);
  const encoder = new HpackEncoder();
  const decoder = new HpackDecoder();
  const below = (limit: number) => Math.floor(random() * limit);
  for (let round = 0; round < 1_000; round++) {
    if (below(20) === 0) {
      for (let i = below(4); i > 0; i--) encoder.limitTable(below(2) === 0 ? 0 : below(8_192));
    }
    const fields: Pairs = Array.from({ length: below(8) }, () =>
      [
        below(4) === 0 ? "accept" : `name-${below(below(30) === 0 ? 400 : 20)}`,
        "v".repeat(below(8) === 0 ? below(1_200) : below(4)) + below(9),
      ] as const);
    assert.deepEqual(decode(decoder, encode(encoder, fields)), fields);
  }
});
