import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import test from "node:test";
import {
  GET_BOOTSTRAP_PARAMS,
  GET_FEATURES,
  SERVER_LIMIT,
  SIGN,
  WATCH_ROOTS,
  WATCH_SERVERS,
} from "./methods.ts";
import type { Method } from "./types.ts";

/** A protobuf field of a text, bytes or a number; encoded by hand, so that the tested tables are not used. */
function field(number: number, content: string | Uint8Array | bigint): Buffer {
  if (typeof content === "bigint") return Buffer.of(...varint(number << 3), ...varint(content));
  const bytes = Buffer.from(content as Uint8Array);
  return Buffer.concat([Buffer.of(...varint(number << 3 | 2), ...varint(bytes.length)), bytes]);
}

function varint(value: number | bigint): number[] {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return [...bytes, Number(rest)];
}

const all = (...fields: Uint8Array[]) => Buffer.concat(fields);
const server = (address: string) => field(1, all(field(1, "an id"), field(2, address)));
const PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const ROOT = all(
  field(1, "41:4e"),
  field(2, "Consul CA"),
  field(3, 18_446_744_073_709_551_615n),
  field(4, "5e:6f"),
  field(5, PEM),
  field(6, PEM),
  field(6, PEM),
  field(7, 1n),
  field(8, field(1, 2n ** 64n - 62_135_596_800n)),
);

const REQUESTS: readonly (readonly [Uint8Array, Uint8Array])[] = [
  [GET_FEATURES.encode(null), all()],
  [
    GET_BOOTSTRAP_PARAMS.encode({ nodeName: "n", proxyId: "p", namespace: "ns", partition: "ap" }),
    all(field(2, "n"), field(4, "ap"), field(5, "ns"), field(6, "p")),
  ],
  [WATCH_SERVERS.encode(null), all()],
  [WATCH_ROOTS.encode(null), all()],
  [SIGN.encode("csr"), field(1, "csr")],
];

test("methods encode requests by Consul's .proto files", () => {
  for (const [bytes, wanted] of REQUESTS) assert.deepEqual(Buffer.from(bytes), wanted);
});

const ANSWERS: readonly (readonly [Method<never, unknown>, Uint8Array, unknown])[] = [
  [
    GET_FEATURES,
    all(field(1, all(field(1, 1n), field(2, 1n))), field(1, field(1, 2n)), field(1, field(1, 9n))),
    { watchServers: true, signs: false },
  ],
  [
    GET_BOOTSTRAP_PARAMS,
    all(
      field(1, 2n),
      field(2, "web"),
      field(3, "default"),
      field(4, "default"),
      field(5, "dc1"),
      field(6, "config"),
      field(8, "virt-1"),
      field(9, "{}"),
    ),
    null,
  ],
  [
    WATCH_SERVERS,
    all(server("10.0.0.1"), server("2001:DB8::0:1"), server("10.0.0.1")),
    ["10.0.0.1", "2001:db8::1"],
  ],
  [WATCH_SERVERS, all(), []],
  [
    WATCH_ROOTS,
    all(field(1, "41:4e"), field(2, "TD.consul"), field(3, ROOT)),
    {
      activeId: "41:4e",
      trustDomain: "td.consul",
      roots: [{
        id: "41:4e",
        name: "Consul CA",
        pem: PEM,
        active: true,
        externalTrustDomain: "",
      }],
    },
  ],
  [SIGN, field(2, PEM + PEM), PEM + PEM],
];

test("methods decode answers to values", () => {
  for (const [method, bytes, wanted] of ANSWERS) {
    assert.deepEqual(method.decode(bytes), wanted, method.resource);
  }
});

for (
  const [name, method, bytes, wanted] of [
    [
      "a DNS name as a server's address",
      WATCH_SERVERS,
      server("evil.example"),
      /"evil.example" is not an IP/,
    ],
    ["an address with a port", WATCH_SERVERS, server("10.0.0.1:22"), /is not an IP/],
    ["no address", WATCH_SERVERS, server(""), /"" is not an IP/],
    [
      "a line break in an address",
      WATCH_SERVERS,
      server("10.0.0.1\n"),
      /characters that it must not have/,
    ],
    [
      "too many servers",
      WATCH_SERVERS,
      all(...Array.from({ length: SERVER_LIMIT + 1 }, () => server("10.0.0.1"))),
      /more than 100 servers/,
    ],
    [
      "far too many servers",
      WATCH_SERVERS,
      Buffer.alloc(2_000_000, field(1, "")),
      /more than/,
    ],
    [
      "a trust domain with control characters",
      WATCH_ROOTS,
      field(2, "\x1b[2J"),
      /trust_domain has char/,
    ],
    [
      "too many roots",
      WATCH_ROOTS,
      all(...Array.from({ length: 101 }, () => field(3, ""))),
      /100 roots/,
    ],
    ["a long certificate", SIGN, field(2, "A".repeat(70_000)), /cert_pem is too long/],
    ["a text that is not UTF-8", SIGN, field(2, Buffer.of(0xff)), /./],
  ] as readonly (readonly [string, Method<never, unknown>, Uint8Array, RegExp])[]
) {
  test(`methods refuse ${name}`, () => assert.throws(() => method.decode(bytes), wanted));
}
