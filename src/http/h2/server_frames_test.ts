import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { bytes } from "../../../test/kit/wire/http2_pair.ts";
import { http2ServerRig } from "../../../test/kit/wire/http2_server_rig.ts";
import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  GET,
  headers,
  PADDED,
  type Pairs,
  POST,
  PREFACE,
  RawPeer,
  repeat,
  settings,
  u32,
} from "../../../test/kit/wire/http2_wire.ts";
import { Deadlines } from "../../base/mod.ts";
import { memoryPair } from "../../../test/kit/engine/memory_pair.ts";
import { DEFAULT_HTTP_LIMITS, type HttpEnd } from "../exchange.ts";
import { HeldBytes } from "../held_bytes.ts";
import { serveHttp2 } from "./server.ts";

const ONE_BYTE = frame("DATA", 0, 1, [0x61]);
const PING = frame("PING", 0, 0, new Uint8Array(8));

const HINT = ["link", "a".repeat(10_000), "link"];
const FULL = frame("DATA", 0, 1, new Uint8Array(16_384));

test("DATA above the window of a paused exchange resets its stream", async () => {
  const held = new HeldBytes(1 << 24);
  const { peer, requests } = await http2ServerRig({}, held);
  await peer.send(headers(1, POST, 0));
  requests[0]?.exchange.pause();
  await peer.send(...repeat(4, () => FULL));
  assert.deepEqual([peer.take(), requests[0]?.recorded.bytes, held.bytes], [[], 0, 65_536]);
  await peer.send(ONE_BYTE);
  assert.deepEqual(peer.take(), ["RST_STREAM 1 3"]);
  assert.deepEqual(requests[0]?.recorded.reset?.reason, "protocol");
  assert.equal(held.bytes, 0);
});

test("the connection window opens late while much is held, and held bytes are given back", async () => {
  // A connection with more than an eighth of it is large.
  const held = new HeldBytes(8 * 120_000);
  const { peer, requests } = await http2ServerRig({ connectionWindowBytes: 131_072 }, held, 65_537);
  const id = (i: number) => 2 * i + 1;
  const body = (i: number) => repeat(4, () => frame("DATA", 0, id(i), new Uint8Array(16_384)));
  await peer.send(...repeat(5, (i) => headers(id(i), POST, 0)));
  for (const { exchange } of requests) exchange.pause();
  await peer.send(...body(0), ...body(1));
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 65536"]);
  await peer.send(...body(2));
  assert.deepEqual([peer.take(), held.bytes], [[], 196_608]);
  requests[1]?.exchange.resume();
  assert.equal(requests[1]?.recorded.bytes, 65_536);
  await settle();
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 65536", "WINDOW_UPDATE 3 65536"]);
  requests[2]?.exchange.resume();
  await settle();
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 196608", "WINDOW_UPDATE 5 65536"]);
  for (const { exchange } of requests) exchange.reset("cancelled");
  assert.equal(held.bytes, 0);
});

test("DATA above the connection window ends the connection", async () => {
  const { peer, requests, ends } = await http2ServerRig({}, new HeldBytes(0));
  const count = (1 << 20) / 65_536;
  await peer.send(...repeat(count + 1, (i) => headers(2 * i + 1, POST, 0)));
  for (const { exchange } of requests) exchange.pause();
  for (let i = 0; i < count; i++) {
    await peer.send(...repeat(4, () => frame("DATA", 0, 2 * i + 1, new Uint8Array(16_384))));
  }
  assert.equal(ends.length, 0);
  const last = 2 * count + 1;
  await peer.send(frame("DATA", 0, last, [1]));
  assert.deepEqual(peer.take(), [`GOAWAY 0 last=${last} code=3`]);
});

test("a body that differs from its declared length resets its stream", async () => {
  const { peer, requests } = await http2ServerRig();
  const said = (id: number) => headers(id, [...POST, ["content-length", "2"]], 0);
  await peer.send(
    said(1),
    frame("DATA", 0, 1, [1, 2, 3]),
    said(3),
    frame("DATA", END_STREAM, 3, [1]),
    said(5),
    frame("DATA", 0, 5, [1]),
    headers(5, [["a", "b"]]),
    said(7),
    frame("DATA", 0, 7, [1]),
    frame("DATA", END_STREAM, 7, [2]),
  );
  assert.deepEqual(peer.take(), ["RST_STREAM 1 1", "RST_STREAM 3 1", "RST_STREAM 5 1"]);
  assert.deepEqual(requests.map(({ recorded }) => recorded.reset?.reason ?? recorded.ended), [
    "protocol",
    "protocol",
    "protocol",
    true,
  ]);
});

test("trailers come with the end, and forbidden ones reset the stream", async () => {
  const { peer, requests } = await http2ServerRig();
  const body = (id: number) => [headers(id, POST, 0), frame("DATA", 0, id, [1])];
  await peer.send(
    ...body(1),
    headers(1, [["grpc-status", "0"]]),
    ...body(3),
    headers(3, [["content-length", "1"]]),
    ...body(5),
    headers(5, [[":path", "/"]]),
    ...body(7),
    headers(7, [["a", "b"]], 0),
    ...body(9),
    headers(9, [["x-forwarded-for", "10.0.0.1"]]),
  );
  assert.deepEqual(requests[0]?.recorded.trailers, ["grpc-status", "0", "grpc-status"]);
  assert.deepEqual(peer.take(), [
    "RST_STREAM 3 1",
    "RST_STREAM 5 1",
    "RST_STREAM 7 1",
    "RST_STREAM 9 1",
  ]);
});

test("padding is given back to the window, and is not part of the body", async () => {
  const { peer, requests } = await http2ServerRig();
  await peer.send(
    frame("HEADERS", PADDED | END_HEADERS, 1, [3, ...block(POST), 0, 0, 0]),
    frame("DATA", PADDED | END_STREAM, 1, [2, 0x68, 0x69, 0, 0]),
  );
  assert.deepEqual([requests[0]?.recorded.text, requests[0]?.recorded.ended], ["hi", true]);
  for (let i = 0; i < 33; i++) {
    await peer.send(
      headers(2 * i + 3, POST, 0),
      frame("DATA", PADDED | END_STREAM, 2 * i + 3, [255, 1, ...new Uint8Array(16_000 + 255)]),
    );
  }
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 536486"]);
});

test("streams above the limit are refused until another one ends", async () => {
  const { peer, requests } = await http2ServerRig({ concurrentStreams: 2 });
  await peer.send(headers(1, GET), headers(3, GET), headers(5, GET));
  assert.deepEqual([peer.take(), requests.length], [["RST_STREAM 5 7"], 2]);
  requests[0]?.exchange.respond({ status: 204, length: -1, fields: [] }, true);
  await peer.send(headers(7, GET));
  assert.deepEqual([peer.take(), requests.length], [["HEADERS 1 end :status=204"], 3]);
});

test("a response waits for the client's window, and its trailers wait for the response", async () => {
  const { peer, requests } = await http2ServerRig({ bufferedBytes: 100 });
  await peer.send(settings([4, 10]), headers(1, GET), headers(3, GET));
  peer.take();
  const [one, two] = requests;
  one?.exchange.respond({ status: 200, length: -1, fields: [] }, false);
  assert.equal(one?.exchange.send(bytes("x".repeat(100))), true);
  assert.equal(one?.exchange.send(bytes("y".repeat(10))), false);
  one?.exchange.end(["a", "b", "a"]);
  two?.exchange.respond({ status: 200, length: 3, fields: [] }, false);
  two?.exchange.send(bytes("abc"));
  two?.exchange.end();
  await settle();
  assert.deepEqual(peer.take(), [
    "HEADERS 1 :status=200",
    "DATA 1 10",
    "HEADERS 3 :status=200 content-length=3",
    "DATA 3 3 end",
  ]);
  await peer.send(frame("WINDOW_UPDATE", 0, 1, u32(60)));
  assert.deepEqual([peer.take(), one?.recorded.drained], [["DATA 1 60"], 1]);
  await peer.send(settings([4, 30]));
  assert.deepEqual(peer.take(), ["SETTINGS 0 ack", "DATA 1 20"]);
  await peer.send(frame("WINDOW_UPDATE", 0, 1, u32(1000)));
  assert.deepEqual(peer.take(), ["DATA 1 20", "HEADERS 1 end a=b"]);
});

test("drain() sends two GOAWAY, serves late requests, and ends with the last response", async () => {
  const { peer, server, requests, ends } = await http2ServerRig();
  await peer.send(headers(1, GET));
  server.drain();
  server.drain();
  await settle();
  assert.deepEqual(peer.take(), ["GOAWAY 0 last=2147483647 code=0", "PING 0"]);
  await peer.send(headers(3, GET), frame("PING", 1, 0, new Uint8Array(8)));
  // Frames on streams above the last one, sent before the client got its number, are ignored.
  await peer.send(headers(5, POST, 0), frame("DATA", END_STREAM, 5, [1]), headers(7, GET));
  assert.deepEqual([peer.take(), requests.length], [["GOAWAY 0 last=3 code=0"], 2]);
  for (const { exchange } of requests) {
    exchange.respond({ status: 200, length: 0, fields: [] }, true);
  }
  await settle();
  assert.deepEqual(peer.take(), [
    "HEADERS 1 end :status=200 content-length=0",
    "HEADERS 3 end :status=200 content-length=0",
    "GOAWAY 0 last=3 code=0",
  ]);
  assert.deepEqual(ends, [{ by: "us", kind: "closed", detail: "drained" }]);
});

test("drain() sends the final GOAWAY to a client that does not answer its PING", async () => {
  const { peer, server, clock, requests, ends } = await http2ServerRig();
  await peer.send(headers(1, GET));
  server.drain();
  await clock.advance(5_200);
  assert.equal(peer.take().at(-1), "GOAWAY 0 last=1 code=0");
  requests[0]?.exchange.reset("internal");
  assert.equal(ends.length, 1);
});

test("unacknowledged SETTINGS end the connection after a deadline", async () => {
  const [ours, theirs] = memoryPair();
  const peer = new RawPeer(ours);
  const clock = new FakeClock();
  const ends: HttpEnd[] = [];
  serveHttp2(theirs, {
    limits: DEFAULT_HTTP_LIMITS,
    clock,
    deadlines: new Deadlines(clock),
    events: { onRequest() {}, onInvalid() {}, onClose: (end) => void ends.push(end) },
  });
  await peer.send(PREFACE, settings());
  await clock.advance(10_200);
  assert.equal(peer.take().at(-1), "GOAWAY 0 last=0 code=4");
  assert.equal(ends[0]?.kind, "timed_out");
});

for (
  const [name, reason, code] of [
    ["refused", "refused", 7],
    ["cancelled", "cancelled", 8],
    ["protocol", "protocol", 1],
    ["connection", "connection", 2],
    ["timed_out", "timed_out", 8],
    ["overflow", "overflow", 11],
    ["internal", "internal", 2],
  ] as const
) {
  test(`reset("${name}") sends code ${code}`, async () => {
    const { peer, requests, server } = await http2ServerRig();
    await peer.send(headers(1, GET), headers(3, POST, 0));
    requests[0]?.exchange.reset(reason);
    requests[1]?.exchange.respond({ status: 200, length: 0, fields: [] }, true);
    requests[1]?.exchange.reset(reason);
    await settle();
    assert.deepEqual(peer.take(), [
      `RST_STREAM 1 ${code}`,
      // The response was complete: NO_ERROR asks the client to stop sending.
      "HEADERS 3 end :status=200 content-length=0",
      "RST_STREAM 3 0",
    ]);
    assert.equal(server.active, 0);
    // Late frames are ignored.
    await peer.send(frame("DATA", END_STREAM, 3, [1]), PING);
    assert.deepEqual(peer.take(), ["PING 0 ack"]);
  });
}

test("a client that reads nothing is ended as a flood", async () => {
  const { peer, requests, ends } = await http2ServerRig();
  peer.stop();
  // The response fills the connection's buffer, so that every answer to a PING would wait for good.
  await peer.send(
    settings([4, 1 << 20]),
    frame("WINDOW_UPDATE", 0, 0, u32(1 << 20)),
    headers(1, GET),
  );
  requests[0]?.exchange.respond({ status: 200, length: -1, fields: [] }, false);
  for (let i = 0; i < 20; i++) requests[0]?.exchange.send(new Uint8Array(10_000));
  await settle();
  for (let i = 0; i < 40 && ends.length === 0; i++) {
    await peer.send(...repeat(400, () => PING));
  }
  assert.deepEqual(ends.map(({ kind }) => kind), ["flood"]);
});

test("send() returns false at once while much is held for the caller, and onDrain() follows", async () => {
  const held = new HeldBytes(8 * 3_000);
  const { peer, requests } = await http2ServerRig({}, held);
  await peer.send(settings([4, 0]), headers(1, GET), headers(3, GET));
  for (const { exchange } of requests) {
    exchange.respond({ status: 200, length: -1, fields: [] }, false);
  }
  const sends = requests.flatMap(({ exchange }) =>
    repeat(2, () => exchange.send(new Uint8Array(2_000)))
  );
  assert.deepEqual([sends, held.bytes], [[true, false, false, false], 8_000]);
  requests[0]?.exchange.reset("internal");
  assert.equal(held.bytes, 4_000);
  await peer.send(frame("WINDOW_UPDATE", 0, 3, u32(1 << 20)));
  assert.deepEqual([requests[1]?.recorded.drained, held.bytes], [1, 0]);
});

test("DATA of reset streams is given back to the connection window", async () => {
  const { peer, requests, clock } = await http2ServerRig();
  let given = 0;
  const count = () => {
    for (const words of peer.take()) {
      const [type, id, size] = words.split(" ");
      if (type === "WINDOW_UPDATE" && id === "0") given += Number(size);
    }
  };
  const full = frame("DATA", 0, 0, new Uint8Array(16_384));
  for (let i = 0; i < 80; i++) {
    const id = 2 * i + 1;
    const body = Uint8Array.from(full);
    new DataView(body.buffer).setUint32(5, id);
    await peer.send(headers(id, POST, 0), body.subarray(0, 5_000));
    // In the middle of a frame.
    requests[i]?.exchange.reset("internal");
    // At a slow pace, so that the window does not grow.
    clock.advanceNow(10);
    await peer.send(body.subarray(5_000));
    count();
  }
  assert.equal(given, 2 * 524_288);
});

test("respond() has an effect once, and inform() only before it", async () => {
  const { peer, requests } = await http2ServerRig();
  await peer.send(headers(1, GET));
  const exchange = requests[0]?.exchange;
  exchange?.inform({ status: 103, length: -1, fields: [] });
  exchange?.respond({ status: 200, length: -1, fields: [] }, false);
  exchange?.respond({ status: 500, length: -1, fields: [] }, false);
  exchange?.inform({ status: 103, length: -1, fields: [] });
  exchange?.end();
  await settle();
  assert.deepEqual(peer.take(), [
    "HEADERS 1 :status=103",
    "HEADERS 1 :status=200",
    "DATA 1 0 end",
  ]);
});

test("delivered bytes are given back to the window when a paused exchange resumes", async () => {
  const { peer, requests, clock } = await http2ServerRig({ streamWindowBytes: 262_144 });
  await peer.send(headers(1, POST, 0));
  const [request] = requests;
  if (request) {
    request.recorded.then = () => request.recorded.bytes >= 131_072 && request.exchange.pause();
  }
  clock.advanceNow(100);
  await peer.send(...repeat(12, () => FULL));
  assert.deepEqual([request?.recorded.bytes, peer.take()], [131_072, []]);
  request?.exchange.pause();
  if (request) request.recorded.then = () => {};
  request?.exchange.resume();
  await settle();
  assert.deepEqual([request?.recorded.bytes, peer.take()], [196_608, ["WINDOW_UPDATE 1 196608"]]);
});

test("a slow client stops the sender, and no byte is lost", async () => {
  const { peer, requests } = await http2ServerRig({ bufferedBytes: 50_000 });
  await peer.send(
    settings([4, 1 << 24]),
    frame("WINDOW_UPDATE", 0, 0, u32(1 << 24)),
    headers(1, GET),
  );
  peer.take();
  peer.stop();
  const [request] = requests;
  request?.exchange.respond({ status: 200, length: -1, fields: [] }, false);
  let sent = 0;
  // Large chunks go to the stream without a copy, and its back-pressure stops the sender.
  for (let goes = true; goes && sent < 1_000_000; sent += 20_000) {
    goes = request?.exchange.send(new Uint8Array(20_000)) ?? false;
    await settle();
  }
  assert.ok(sent < 300_000, String(sent));
  peer.goOn();
  for (let i = 0; i < 50; i++) await settle();
  assert.equal(request?.recorded.drained, 1);
  request?.exchange.end();
  for (let i = 0; i < 5; i++) await settle();
  const sizes = peer.take().filter((words) => words.startsWith("DATA 1 "))
    .map((words) => Number(words.split(" ")[2]));
  assert.equal(sizes.reduce((sum, size) => sum + size, 0), sent);
});

test("a stream window grows while its body is read fast, but not while much is held", async () => {
  const held = new HeldBytes(1 << 24);
  const { peer } = await http2ServerRig({}, held);
  await peer.send(headers(1, POST, 0), ...repeat(2, () => FULL));
  assert.deepEqual(peer.take(), [`WINDOW_UPDATE 1 ${32_768 + 3 * 65_536}`]);
  await peer.send(...repeat(8, () => FULL));
  assert.deepEqual(peer.take(), [`WINDOW_UPDATE 1 ${131_072 + 3 * 262_144}`]);
  await peer.send(...repeat(32, () => FULL));
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 524288", "WINDOW_UPDATE 1 524288"]);
  // So much is held for another caller that no window may grow.
  const other = held.open("other");
  other.hold(1 << 22);
  const small = frame("DATA", 0, 3, new Uint8Array(16_384));
  await peer.send(headers(3, POST, 0), ...repeat(2, () => small));
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 3 32768"]);
  // So much is held that the first stream's window shrinks to its initial size.
  other.hold(1 << 23);
  await peer.send(...repeat(64, () => FULL));
  const updates = peer.take().filter((words) => words.startsWith("WINDOW_UPDATE 1 "));
  const given = updates.reduce((sum, words) => sum + Number(words.split(" ")[2]), 0);
  assert.equal(given, (64 + 32 - 32) * 16_384 - (1 << 20) + 65_536);
});

test("a declared length above the window grows it with the first byte", async () => {
  const { peer } = await http2ServerRig();
  const long: Pairs = [...POST, ["content-length", "1000000"]];
  await peer.send(headers(1, long, 0), frame("DATA", 0, 1, new Uint8Array(1_000)));
  assert.deepEqual(peer.take(), [`WINDOW_UPDATE 1 ${1_000 + 3 * 65_536}`]);
  const short: Pairs = [...POST, ["content-length", "65536"]];
  await peer.send(headers(3, short, 0), frame("DATA", 0, 3, new Uint8Array(1_000)));
  assert.deepEqual(peer.take(), []);
});

test("1xx other than 100 are dropped while the client does not read", async () => {
  const { peer, requests } = await http2ServerRig();
  await peer.send(headers(1, POST, 0));
  const [{ exchange } = assert.fail("no request")] = requests;
  peer.stop();
  const hint = (status: number) => exchange.inform({ status, length: 0, fields: HINT });
  for (let count = 0; count < 100; count++) {
    hint(103);
    await settle();
  }
  hint(100);
  peer.goOn();
  await settle();
  const words = peer.take();
  const hints = words.filter((word) => word.includes(":status=103"));
  assert.ok(hints.length > 0 && hints.length < 20, String(hints.length));
  assert.equal(words.filter((word) => word.includes(":status=100")).length, 1);
});
