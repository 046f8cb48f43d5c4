/**
 * Servers that send HTTP/2 frames as no library would: each fault ends the call with a status,
 * and holds a bounded memory.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { Buffer } from "node:buffer";
import { FakeClock, settle } from "../../test/kit/clock/clock.ts";
import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  headers,
  type Pairs,
  RawPeer,
  repeat,
  settings,
  u32,
} from "../../test/kit/wire/http2_wire.ts";
import { MemoryEngine } from "../../test/kit/engine/memory_engine.ts";
import { GrpcChannel } from "./channel.ts";
import { framed } from "./message_reader.ts";
import { formatStatus, type GrpcCall, type GrpcLimits } from "./types.ts";

const CONCURRENT_STREAMS = 3;
const INITIAL_WINDOW = 4;
const LIMITS = { messageBytes: 1_000, connectMs: 1_000, firstMessageMs: 2_000 };

/** A channel whose server is played by the test. */
class Rig {
  readonly clock = new FakeClock();
  readonly engine = new MemoryEngine();
  readonly channel;
  readonly servers: RawPeer[] = [];

  constructor(limits: Partial<GrpcLimits> = {}) {
    this.channel = new GrpcChannel({
      engine: this.engine,
      clock: this.clock,
      random: () => 0,
      addresses: [{ kind: "tcp", host: "192.0.2.1", port: 1 }],
      tls: null,
      metadata: { "x-a": "b" },
      keepAliveMs: 30_000,
      keepAliveTimeoutMs: 5_000,
      limits: { ...LIMITS, ...limits },
    });
  }

  /** A call that waits for its connection. */
  call(): CallOutcome {
    const outcome: CallOutcome = { messages: [], ended: [], call: undefined };
    outcome.call = this.channel.open("/test.Echo/Echo", BYTES, {
      onMessage: (bytes) => void outcome.messages.push(Buffer.from(bytes).toString()),
      onEnd: (status) => void outcome.ended.push(formatStatus(status)),
    });
    return outcome;
  }

  /** The server of the last dial; it has sent nothing yet. */
  async accept(): Promise<RawPeer> {
    await settle();
    const server = new RawPeer(this.engine.lastDial.connect().connection, { server: true });
    this.servers.push(server);
    await settle();
    return server;
  }
}

interface CallOutcome {
  readonly messages: string[];
  readonly ended: string[];
  call: GrpcCall<Uint8Array> | undefined;
}

const BYTES = { encode: (bytes: Uint8Array) => bytes, decode: (bytes: Uint8Array) => bytes };
const HEAD: Pairs = [[":status", "200"], ["content-type", "application/grpc"]];
const OK: Pairs = [["grpc-status", "0"]];

const status = (code: string, fields: Pairs = []) => headers(1, [[":status", code], ...fields]);
const message = (text: string) => frame("DATA", 0, 1, framed(Buffer.from(text)));
const reset = (code: number) => frame("RST_STREAM", 0, 1, u32(code));
const goaway = (lastId: number, code: number) =>
  frame("GOAWAY", 0, 0, [...u32(lastId), ...u32(code)]);
const part = (...octets: number[]) => frame("DATA", 0, 1, octets);

/** A message of 70,000 octets. */
function longHead(): Uint8Array[] {
  const fields = repeat(50, (at) => [`x-${at}`, "x".repeat(1_400)] as const);
  const bytes = block([[":status", "200"], ...fields]);
  const frames: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += 16_384) {
    const last = at + 16_384 >= bytes.length ? END_HEADERS : 0;
    const type = at === 0 ? "HEADERS" : "CONTINUATION";
    frames.push(frame(type, last, 1, bytes.subarray(at, at + 16_384)));
  }
  return frames;
}

/** Answers to the first call of a connection whose settings have come. */
const ANSWERS: readonly (readonly [name: string, frames: readonly Uint8Array[], ended: string])[] =
  [
    ["a status alone", [headers(1, [...HEAD, ...OK])], "OK"],
    [
      "a status with a message",
      [headers(1, [...HEAD, ["grpc-status", "7"], ["grpc-message", "f%C3%BCr%0Aniemand"]])],
      "PERMISSION_DENIED: für niemand",
    ],
    [
      "another HTTP status",
      [status("503", [["content-type", "text/plain"]])],
      "UNAVAILABLE: the server answers with HTTP status 503, not with gRPC",
    ],
    [
      "another HTTP status and a body",
      [headers(1, [[":status", "404"]], 0), part(1, 2, 3)],
      "UNIMPLEMENTED: the server answers with HTTP status 404, not with gRPC",
    ],
    [
      "a page",
      [headers(1, [[":status", "200"], ["content-type", "text/html"]], 0), part(60)],
      "UNKNOWN: the server answers with text/html, not with gRPC",
    ],
    [
      "no content type",
      [status("200")],
      "UNKNOWN: the server answers with no content type, not with gRPC",
    ],
    [
      "an end without trailers",
      [headers(1, HEAD, 0), frame("DATA", END_STREAM, 1)],
      "UNKNOWN: the server ended the call without a status",
    ],
    [
      "trailers without a status",
      [headers(1, HEAD, 0), headers(1, [["x-a", "b"]])],
      "UNKNOWN: the server ended the call without a status",
    ],
    [
      "a status that is not a number",
      [headers(1, HEAD, 0), headers(1, [["grpc-status", "fine"], ["grpc-message", "really"]])],
      "UNKNOWN: really",
    ],
    [
      "a compressed message",
      [headers(1, [...HEAD, ["grpc-encoding", "gzip"]], 0), part(1, 0, 0, 0, 1, 0)],
      "INTERNAL: a message is compressed, which was not offered",
    ],
    [
      "no messages at all",
      [headers(1, HEAD, 0), part(...Buffer.from("<html>"))],
      "INTERNAL: what comes is not framed as messages of gRPC are",
    ],
    [
      "a message that is too large",
      [headers(1, HEAD, 0), part(0, 0, 0, 3, 233)],
      "RESOURCE_EXHAUSTED: a message of 1001 bytes is above the limit of 1000",
    ],
    [
      "an end within a message",
      [headers(1, HEAD, 0), part(0, 0, 0, 0, 9, 1), headers(1, OK)],
      "INTERNAL: the server ended the call within a message",
    ],
    [
      "an end within a prefix",
      [headers(1, HEAD, 0), frame("DATA", END_STREAM, 1, [0])],
      "INTERNAL: the server ended the call within a message",
    ],
    [
      "a failure within a message",
      [headers(1, HEAD, 0), part(0, 0, 0, 0, 9, 1), headers(1, [["grpc-status", "14"]])],
      "UNAVAILABLE",
    ],
    ["a reset: no", [reset(8)], "CANCELLED: reset by the peer with code 8"],
    ["a reset: not begun", [reset(7)], "UNAVAILABLE: reset by the peer with code 7"],
    ["a reset: slow down", [reset(11)], "RESOURCE_EXHAUSTED: reset by the peer with code 11"],
    [
      "a reset: a fault",
      [headers(1, HEAD, 0), reset(2)],
      "INTERNAL: reset by the peer with code 2",
    ],
    [
      "resets without end",
      repeat(20_000, () => reset(8)),
      "CANCELLED: reset by the peer with code 8",
    ],
    ["a GOAWAY before it", [goaway(0, 11)], "UNAVAILABLE: not begun, by a GOAWAY with code 11"],
    [
      "a frame that is too large",
      [frame("DATA", 0, 1, new Uint8Array(16_385))],
      "UNAVAILABLE: a frame of the wrong size",
    ],
    [
      "a head that is too large",
      longHead(),
      "RESOURCE_EXHAUSTED: a head above the limits",
    ],
    [
      "a head in too many frames",
      [
        frame("HEADERS", 0, 1, [0]),
        ...repeat(9_000, () => frame("CONTINUATION", 0, 1, [0, 1, 97])),
      ],
      "UNAVAILABLE: a header block without end",
    ],
    [
      "informational responses without end",
      repeat(33, () => headers(1, [[":status", "103"]], 0)),
      "RESOURCE_EXHAUSTED: informational without end",
    ],
    [
      "frames without content",
      [headers(1, HEAD, 0), ...repeat(2, () => part())],
      "UNAVAILABLE: empty frames",
    ],
    [
      "pings without end",
      repeat(1_001, () => frame("PING", 0, 0, new Uint8Array(8))),
      "UNAVAILABLE: PING and SETTINGS",
    ],
  ];

for (const [name, frames, wanted] of ANSWERS) {
  test(`GrpcChannel ends a call after ${name}: ${wanted}`, async () => {
    const rig = new Rig();
    const outcome = rig.call();
    const server = await rig.accept();
    await server.send(settings());
    await server.send(...frames);
    assert.deepEqual(outcome.ended, [wanted]);
    assert.deepEqual(outcome.messages, []);
    // The next call is served.
    const next = rig.call();
    await settle();
    const again = rig.engine.dials.length > 1 ? await rig.accept() : server;
    await again.send(settings());
    const id = again === server ? 3 : 1;
    await again.send(headers(id, HEAD, 0), frame("DATA", 0, id, framed(Buffer.from("a"))));
    assert.deepEqual([next.messages, next.ended], [["a"], []]);
    rig.channel.close();
  });
}

for (
  const [name, frames, wanted] of [
    ["other frames first", [frame("PING", 0, 0, new Uint8Array(8))], /does not begin as HTTP\/2/],
    ["another protocol", [Buffer.from("220 mail.test ESMTP\r\n")], /does not begin as HTTP\/2/],
    ["no calls at all", [settings([CONCURRENT_STREAMS, 0])], /: the server takes no calls$/],
    ["a GOAWAY at once", [settings(), goaway(0, 0)], /: not begun, by a GOAWAY with code 0$/],
  ] as const
) {
  test(`GrpcChannel gives up a server that begins with ${name}`, async () => {
    const rig = new Rig();
    const outcome = rig.call();
    for (let dials = 0; dials < 2 && outcome.ended.length === 0; dials++) {
      await (await rig.accept()).send(...frames);
    }
    assert.match(outcome.ended.join(), wanted);
    assert.match(outcome.ended.join(), /^UNAVAILABLE: /);
    await settle();
    assert.ok(rig.servers.every(({ closed }) => closed !== "no"), "no socket is left");
    await rig.clock.advance(60_000);
    assert.ok(rig.engine.dials.length <= 2, "the number of dials is bounded");
    assert.equal(rig.clock.pending, 0);
  });
}

test("GrpcChannel finishes the calls of a full or draining connection, and opens another", async () => {
  const rig = new Rig();
  const first = rig.call();
  const server = await rig.accept();
  await server.send(settings());
  await server.send(headers(1, HEAD, 0), goaway(1, 0));
  const second = rig.call();
  const other = await rig.accept();
  await other.send(settings([CONCURRENT_STREAMS, 1]));
  await server.send(message("a"));
  await other.send(headers(1, HEAD, 0), message("b"));
  const third = rig.call();
  const last = await rig.accept();
  await last.send(settings());
  await last.send(headers(1, HEAD, 0), message("c"));
  assert.deepEqual([first, second, third].map(({ messages }) => messages), [["a"], ["b"], ["c"]]);
  assert.equal(rig.engine.dials.length, 3);
  await server.send(headers(1, OK));
  assert.deepEqual(first.ended, ["OK"]);
  assert.notEqual(server.closed, "no", "the drained connection closes");
  assert.equal(other.closed, "no");
  rig.channel.close();
});

test("GrpcChannel dials the next address after UNAVAILABLE, and closes the old connection after its calls", async () => {
  const rig = new Rig();
  const [first, second] = [rig.call(), rig.call()];
  const server = await rig.accept();
  await server.send(settings());
  await server.send(headers(1, [...HEAD, ["grpc-status", "14"]]), headers(3, HEAD, 0));
  assert.deepEqual([first.ended, second.ended], [["UNAVAILABLE"], []]);
  rig.call();
  await settle();
  assert.equal(rig.engine.dials.length, 2);
  await server.send(headers(3, OK));
  assert.deepEqual(second.ended, ["OK"]);
  assert.notEqual(server.closed, "no");
  rig.channel.close();
});

test("GrpcChannel sends the head, respects the window, and resets a closed call", async () => {
  const rig = new Rig();
  const { call } = rig.call();
  call?.send(new Uint8Array(20));
  const server = await rig.accept();
  await server.send(settings([INITIAL_WINDOW, 10]));
  const [head, body] = server.take().filter((words) => /^(HEADERS|DATA)/.test(words));
  assert.equal(
    head,
    "HEADERS 1 :method=POST :scheme=http :authority=192.0.2.1:1 :path=/test.Echo/Echo " +
      "te=trailers content-type=application/grpc user-agent=grpc-postern " +
      "grpc-accept-encoding=identity x-a=b",
  );
  assert.equal(body, "DATA 1 10");
  await server.send(frame("WINDOW_UPDATE", 0, 1, u32(100)));
  call?.halfClose();
  await settle();
  assert.deepEqual(server.take(), ["DATA 1 15", "DATA 1 0 end"]);
  call?.close();
  await settle();
  assert.deepEqual(server.take(), ["RST_STREAM 1 8", "GOAWAY 0 last=0 code=0"]);
});

test("GrpcChannel ends a call whose server opens no window", async () => {
  const rig = new Rig({ unsentBytes: 300_000 });
  const outcome = rig.call();
  const server = await rig.accept();
  await server.send(settings([INITIAL_WINDOW, 0]));
  outcome.call?.send(new Uint8Array(290_000));
  outcome.call?.send(new Uint8Array(290_000));
  await settle();
  assert.deepEqual(outcome.ended, []);
  outcome.call?.send(new Uint8Array(20_000));
  await settle();
  assert.deepEqual(outcome.ended, ["RESOURCE_EXHAUSTED: the server does not read our requests"]);
});

test("GrpcChannel ends a call whose message trickles past the limit", async () => {
  const rig = new Rig();
  const outcome = rig.call();
  const server = await rig.accept();
  await server.send(settings());
  await server.send(headers(1, HEAD, 0), part(0, 0, 0, 3, 0));
  for (let ms = 0; ms < 2_900; ms += 100) {
    await rig.clock.advance(100);
    await server.send(part(1));
  }
  assert.deepEqual(outcome.ended, []);
  await rig.clock.advance(100);
  assert.deepEqual(outcome.ended, ["DEADLINE_EXCEEDED: no whole message came in time"]);
  await settle();
  assert.equal(server.take().filter((words) => words === "RST_STREAM 1 8").length, 1);
});
