import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import {
  clientHello,
  clientHelloMessage,
  record,
  uint16,
  vector,
} from "../../test/conformance/net/client_hello.ts";
import { cpuMs } from "../../test/kit/process/cpu_time.ts";
import { CLIENT_HELLO_LIMIT_BYTES, readClientHello } from "./client_hello.ts";

const LONG = `${"a".repeat(63)}.`.repeat(3);

for (
  const [name, bytes, want] of [
    ["with required parts only", clientHello({ schemes: [0x0403] }), {}],
    ["with a name", clientHello({ names: ["Db.Example.COM"] }), { serverName: "db.example.com" }],
    ["with a trailing dot", clientHello({ names: ["db.example."] }), { serverName: "db.example" }],
    ["with an internal name", clientHello({ names: ["_db.x-1"] }), { serverName: "_db.x-1" }],
    ["with a name of 253 characters", clientHello({ names: [LONG + "b".repeat(61)] }), {
      serverName: LONG + "b".repeat(61),
    }],
    ["with algorithms in their order", clientHello({ schemes: [0x0804, 0x0403, 0x0a0a] }), {
      signatureAlgorithms: [0x0804, 0x0403, 0x0a0a],
    }],
    [
      "with algorithms for certificates, which are ignored",
      clientHello({ extensions: [[50, vector(2, uint16(0x0807))]] }),
      {},
    ],
    ["with protocols", clientHello({ alpn: ["h2", "http/1.1"] }), { alpn: ["h2", "http/1.1"] }],
    ["in records of one byte", clientHello({ names: ["db"], recordBytes: 1 }), {
      serverName: "db",
    }],
    ["in records of three bytes", clientHello({ names: ["db"], recordBytes: 3 }), {
      serverName: "db",
    }],
    ["in two records", clientHello({ names: ["db"], recordBytes: 60 }), { serverName: "db" }],
    ["of 16 KiB", clientHello(padded(16_384)), {}],
    ["of 16 KiB in small records", clientHello({ ...padded(16_384), recordBytes: 32 }), {}],
    ["followed by anything", Buffer.concat([clientHello({ names: ["db"] }), Buffer.of(1, 2)]), {
      serverName: "db",
    }],
    ["of SSL 3", clientHello({ version: 0x0300, names: ["db"] }), { serverName: "db" }],
  ] as const
) {
  test(`readClientHello() of one ${name}`, () => {
    const hello = { serverName: undefined, signatureAlgorithms: [0x0403], alpn: [] };
    assert.deepEqual(readClientHello(bytes), { kind: "complete", hello: { ...hello, ...want } });
  });
}

test("readClientHello() of one without extensions", () => {
  const message = clientHelloMessage();
  const bare = Buffer.concat([message.subarray(4, 4 + 34), Buffer.of(0, 0, 2, 0, 5, 1, 0)]);
  const hello = { serverName: undefined, signatureAlgorithms: [], alpn: [] };
  for (const body of [bare, Buffer.concat([bare, Buffer.of(0, 0)])]) {
    const bytes = record(Buffer.concat([Buffer.of(1), vector(3, body)]));
    assert.deepEqual(readClientHello(bytes), { kind: "complete", hello });
  }
});

/** A message of that many bytes with its header. */
function padded(size: number) {
  const rest = size - clientHelloMessage({ extensions: [[21, new Uint8Array()]] }).length;
  return { extensions: [[21, new Uint8Array(rest)]] as const };
}

function hello(names: readonly string[]): Uint8Array {
  return clientHello({ names });
}

/** The message with `change` made to it, its length corrected. */
function changed(change: (body: Buffer) => Buffer): Buffer {
  const body = change(Buffer.from(clientHelloMessage({ names: ["db"] }).subarray(4)));
  return record(Buffer.concat([Buffer.of(1), vector(3, body)]));
}

for (
  const [name, bytes, reason] of [
    ["an HTTP request", Buffer.from("GET / HTTP/1.1\r\n"), /not speak TLS but plain HTTP$/],
    ["HTTP/2 in plain text", Buffer.from("PRI * HTTP/2.0\r\n"), /plain HTTP$/],
    ["a PostgreSQL SSLRequest", Buffer.of(0, 0, 0, 8, 4, 210, 22, 47), /not speak TLS$/],
    ["one byte that begins no record", Buffer.of(0x41), /not speak TLS$/],
    ["a handshake record of another protocol", Buffer.of(0x16, 0x41), /not speak TLS$/],
    ["an SSL 2 hello", Buffer.of(0x80, 0x2e, 1, 3, 1), /not speak TLS$/],
    ["an alert", Buffer.of(0x15, 3, 3, 0, 2, 2, 40), /not speak TLS$/],
    ["a ServerHello", Buffer.of(0x16, 3, 3, 0, 1, 2), /not a ClientHello/],
    ["an empty record", Buffer.of(0x16, 3, 1, 0, 0), /empty handshake record/],
    ["an oversized record", Buffer.of(0x16, 3, 1, 0x40, 1), /oversized/],
    ["another record in between", clientHello({ cut: 20 }), /interrupted/],
    ["more than 16 KiB", clientHello(padded(16_385)), /larger than 16 KiB/],
    ["a claim of 16 MiB", Buffer.of(0x16, 3, 1, 0, 4, 1, 255, 255, 255), /larger than 16 KiB/],
    [
      "16 KiB in tiny records",
      clientHello({ ...padded(16_384), recordBytes: 8 }).subarray(0, CLIENT_HELLO_LIMIT_BYTES),
      /too many TLS records/,
    ],
    ["two names", hello(["db", "web"]), /several hosts/],
    ["an empty list of names", hello([]), /extension .* malformed/],
    ["an empty name", hello([""]), /not a DNS name/],
    ["a lone dot", hello(["."]), /not a DNS name/],
    ["two trailing dots", hello(["db.."]), /not a DNS name/],
    ["an empty label", hello(["db..x"]), /not a DNS name/],
    ["a label of 64", hello(["a".repeat(64)]), /not a DNS name/],
    ["a name of 254", hello([LONG + "b".repeat(62)]), /not a DNS name/],
    ["a name of a megabyte less one", hello(["a.".repeat(7_000) + "a"]), /not a DNS name/],
    ["NUL in a name", hello(["db\0.x"]), /not a DNS name/],
    ["a blank in a name", hello(["d b"]), /not a DNS name/],
    ["a wildcard", hello(["*.db"]), /not a DNS name/],
    ["an IPv6 address", hello(["::1"]), /not a DNS name/],
    ["a name in UTF-8", hello(["d\xc3\xbc"]), /not a DNS name/],
    ["a path", hello(["../db"]), /not a DNS name/],
    [
      "a name of another type",
      clientHello({ extensions: [[0, vector(2, Buffer.of(1, 0, 1, 65))]] }),
      /names something but a host/,
    ],
    ["a repeated extension", clientHello({ extensions: [[13, vector(2, uint16(1))]] }), /repeats/],
    [
      "an odd list of algorithms",
      clientHello({ schemes: [], extensions: [[43, new Uint8Array()]] }),
      /extension .* malformed/,
    ],
    ["a nameless protocol", clientHello({ alpn: ["h2", ""] }), /without a name/],
    [
      "bytes after its extensions",
      changed((body) => Buffer.concat([body, Buffer.of(0)])),
      /goes on/,
    ],
    ["a body cut short", changed((body) => body.subarray(0, -1)), /cut short/],
    ["no body", changed(() => Buffer.alloc(0)), /cut short/],
    ["a session id beyond the end", changed((body) => body.fill(255, 34, 35)), /cut short/],
  ] as const
) {
  test(`readClientHello() refuses ${name}`, () => {
    const reading = readClientHello(bytes);
    assert.equal(reading.kind, "invalid");
    if (reading.kind === "invalid") assert.match(reading.reason, reason);
  });
}

test("readClientHello() needs more for any proper prefix", () => {
  for (const recordBytes of [1, 7, 16_384]) {
    const bytes = clientHello({ names: ["db"], alpn: ["h2"], recordBytes });
    for (let length = 0; length < bytes.length; length++) {
      assert.deepEqual(readClientHello(bytes.subarray(0, length)), { kind: "partial" });
    }
  }
});

test("readClientHello() costs little for each byte of a slow message", () => {
  // Records of one byte, of a message that claims to be long.
  const bytes = Buffer.concat(
    Array.from({ length: 3_400 }, (_, at) => record(Buffer.of([1, 0, 0x3f][at] ?? 0))),
  );
  assert.ok(bytes.length < CLIENT_HELLO_LIMIT_BYTES);
  const startMs = cpuMs();
  for (let length = bytes.length - 1_000; length < bytes.length; length++) {
    assert.equal(readClientHello(bytes.subarray(0, length)).kind, "partial");
  }
  assert.ok(cpuMs() - startMs < 1_000);
});
