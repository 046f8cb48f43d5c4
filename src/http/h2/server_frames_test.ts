import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock.ts";
import { bytes, Told } from "../../../test/kit/http2_pair.ts";
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
  settings,
  u32,
} from "../../../test/kit/http2_wire.ts";
import { Deadlines } from "../../base/mod.ts";
import { memoryPair } from "../../net/memory.ts";
import type { HttpEnd, ServerConnection, ServerExchange } from "../exchange.ts";
import { DEFAULT_HTTP_LIMITS, type HttpLimits } from "../limits.ts";
import { HeldBytes } from "./held_bytes.ts";
import { serveHttp2 } from "./server.ts";

interface Served {
  readonly peer: RawPeer;
  readonly server: ServerConnection;
  readonly clock: FakeClock;
  readonly requests: { readonly exchange: ServerExchange; readonly told: Told }[];
  readonly invalid: string[];
  readonly ends: HttpEnd[];
}

/** A server that answers nothing by itself, with a client that has shaken hands. */
async function served(
  limits: Partial<HttpLimits> = {},
  held: HeldBytes = new HeldBytes(1 << 24),
): Promise<Served> {
  const [ours, theirs] = memoryPair();
  const peer = new RawPeer(ours);
  const clock = new FakeClock();
  const requests: Served["requests"] = [];
  const invalid: string[] = [];
  const ends: HttpEnd[] = [];
  const server = serveHttp2(theirs, {
    limits: { ...DEFAULT_HTTP_LIMITS, ...limits },
    clock,
    deadlines: new Deadlines(clock),
    held,
    events: {
      onRequest(exchange) {
        const told = new Told();
        exchange.events = told;
        requests.push({ exchange, told });
      },
      onInvalid: (status, detail) => void invalid.push(`${status} ${detail}`),
      onClose: (end) => void ends.push(end),
    },
  });
  await peer.send(PREFACE, settings(), frame("SETTINGS", 1, 0));
  assert.deepEqual(peer.take(), ["SETTINGS 0", "WINDOW_UPDATE 0 983041", "SETTINGS 0 ack"]);
  return { peer, server, clock, requests, invalid, ends };
}

const without = (name: string): Pairs => GET.filter(([field]) => field !== name);
const CONNECT: Pairs = [[":method", "CONNECT"], [":authority", "db:80"]];

/** A request that only its stream suffers from. */
for (
  const [name, fields, fault] of [
    ["without a method", without(":method"), "no method"],
    ["without a scheme", without(":scheme"), "no scheme"],
    ["without a path", without(":path"), "no valid path"],
    ["without authority and host", without(":authority"), "no authority"],
    ["with an empty path", [...without(":path"), [":path", ""]], "no valid path"],
    [
      "with a path of an absolute form",
      [...without(":path"), [":path", "http://a/"]],
      "no valid path",
    ],
    ["with a fragment", [...without(":path"), [":path", "/a#b"]], "no valid path"],
    ["with a space in its path", [...without(":path"), [":path", "/a b"]], "no valid path"],
    ["with a star and GET", [...without(":path"), [":path", "*"]], "no valid path"],
    ["with an unknown scheme", [...without(":scheme"), [":scheme", "ftp"]], "an unknown scheme"],
    [
      "with a user in its authority",
      [...without(":authority"), [":authority", "me@db"]],
      "no valid authority",
    ],
    [
      "with a method that is no token",
      [[":method", "GE T"], ...without(":method")],
      "no valid method",
    ],
    ["with a pseudo-field twice", [...GET, [":path", "/"]], "a pseudo-field twice"],
    [
      "with a pseudo-field of responses",
      [...GET, [":status", "200"]],
      "a pseudo-field that does not belong there",
    ],
    [
      "with an unknown pseudo-field",
      [...GET, [":version", "2"]],
      "a field that has no place in HTTP/2",
    ],
    [
      "with a pseudo-field after a field",
      [["a", "b"], ...GET],
      "a pseudo-field after another field",
    ],
    [
      "with a pseudo-field after a length",
      [["content-length", "0"], ...GET],
      "a pseudo-field after another field",
    ],
    [
      "with upper case in a name",
      [...GET, ["Accept", "*/*"]],
      "a field that has no place in HTTP/2",
    ],
    ["with an empty name", [...GET, ["", "x"]], "a field that has no place in HTTP/2"],
    ["with connection", [...GET, ["connection", "close"]], "a field that has no place in HTTP/2"],
    [
      "with transfer-encoding",
      [...GET, ["transfer-encoding", "chunked"]],
      "a field that has no place in HTTP/2",
    ],
    ["with keep-alive", [...GET, ["keep-alive", "1"]], "a field that has no place in HTTP/2"],
    [
      "with proxy-connection",
      [...GET, ["proxy-connection", "close"]],
      "a field that has no place in HTTP/2",
    ],
    ["with upgrade", [...GET, ["upgrade", "h2c"]], "a field that has no place in HTTP/2"],
    ["with te other than trailers", [...GET, ["te", "gzip"]], "a te other than trailers"],
    ["with another host", [...GET, ["host", "other"]], "a host other than the authority"],
    [
      "with two hosts",
      [...GET, ["host", "db.example"], ["host", "x"]],
      "a field twice that may stand once",
    ],
    [
      "with a line break in a value",
      [...GET, ["a", "b\r\nc"]],
      "a value with control characters or outer white space",
    ],
    [
      "with NUL in a value",
      [...GET, ["a", "b\0"]],
      "a value with control characters or outer white space",
    ],
    [
      "with white space around a value",
      [...GET, ["a", " b"]],
      "a value with control characters or outer white space",
    ],
    [
      "with two lengths",
      [...POST, ["content-length", "1"], ["content-length", "1"]],
      "a field twice that may stand once",
    ],
    ["with a signed length", [...POST, ["content-length", "+1"]], "no valid length"],
    ["with a length and no body", [...POST, ["content-length", "1"]], "a length without a body"],
    ["of CONNECT with a path", [...CONNECT, [":path", "/"]], "CONNECT with a scheme or path"],
    ["of CONNECT without authority", [[":method", "CONNECT"]], "no authority"],
    ["of CONNECT with a length", [...CONNECT, ["content-length", "0"]], "CONNECT with a length"],
    ["with a protocol and GET", [...GET, [":protocol", "websocket"]], "a protocol without CONNECT"],
  ] as readonly (readonly [string, Pairs, string])[]
) {
  test(`a request ${name} costs its stream and nothing else`, async () => {
    const { peer, requests, invalid } = await served();
    await peer.send(headers(1, fields), headers(3, GET));
    assert.deepEqual(peer.take(), ["RST_STREAM 1 1"]);
    assert.deepEqual(invalid, [`400 ${fault}`]);
    assert.deepEqual(requests.map(({ exchange }) => exchange.request.path), ["/"]);
  });
}

test("a request's fields come as a head", async () => {
  const { peer, requests } = await served();
  await peer.send(headers(1, [
    ...without(":authority"),
    ["host", "Db.Example:80"],
    ["cookie", "a=1"],
    ["te", "trailers"],
    ["cookie", "b=2"],
    ["expect", "100-Continue"],
    ["content-length", "3"],
    ["cookie", "c=3"],
  ], 0));
  assert.deepEqual(requests[0]?.exchange.request, {
    method: "GET",
    scheme: "http",
    authority: "Db.Example:80",
    path: "/",
    upgrade: "",
    length: 3,
    expectsContinue: true,
    fields: ["cookie", "a=1; b=2; c=3", "cookie", "te", "trailers", "te"],
    version: "HTTP/2",
  });
});

/** Heads that are answered without anybody being asked. */
for (
  const [name, frames, answers] of [
    [
      "of too many fields",
      [headers(1, [...GET, ...Array.from({ length: 101 }, () => ["a", "b"] as const)])],
      ["HEADERS 1 end :status=431"],
    ],
    [
      "of too many octets, which the last frame shows",
      [
        frame("HEADERS", END_STREAM, 1, block([...GET, ["a", "x".repeat(10_000)]])),
        ...Array.from(
          { length: 5 },
          (_, i) =>
            frame("CONTINUATION", i === 4 ? END_HEADERS : 0, 1, block([["b", "x".repeat(11_000)]])),
        ),
      ],
      ["HEADERS 1 end :status=431"],
    ],
    [
      "of too many crumbs of cookies",
      [headers(1, [...GET, ...Array.from({ length: 1_600 }, () => ["cookie", "a"] as const)])],
      ["HEADERS 1 end :status=431"],
    ],
    [
      "with an unknown expectation and a body to come",
      [headers(1, [...POST, ["expect", "more"]], 0)],
      ["HEADERS 1 end :status=417", "RST_STREAM 1 0"],
    ],
  ] as readonly (readonly [string, readonly Uint8Array[], readonly string[]])[]
) {
  test(`a request ${name} is answered, and the connection goes on`, async () => {
    const { peer, requests, invalid } = await served();
    await peer.send(...frames, headers(3, GET));
    assert.deepEqual(peer.take(), answers);
    assert.equal(invalid.length, 1);
    assert.equal(requests.length, 1);
  });
}

const ONE_BYTE = frame("DATA", 0, 1, [0x61]);
const PING = frame("PING", 0, 0, new Uint8Array(8));

/** What ends the connection: frames after the handshake, the code of its GOAWAY, and how it ended. */
for (
  const [name, frames, code, kind, detail] of [
    ["DATA on an idle stream", [ONE_BYTE], 1, "protocol", "DATA on no stream"],
    ["a stream of the server's", [headers(2, GET)], 1, "protocol", "a stream of the wrong side"],
    ["PUSH_PROMISE", [frame("PUSH_PROMISE", 4, 1, [0, 0, 0, 2])], 1, "protocol", "PUSH_PROMISE"],
    [
      "a broken header block",
      [frame("HEADERS", 5, 1, [0x80])],
      9,
      "protocol",
      "an index that names no field",
    ],
    [
      "too large a frame",
      [frame("PING", 0, 0, new Uint8Array(16_385))],
      6,
      "protocol",
      "a frame of the wrong size",
    ],
    [
      "a broken-off header block",
      [frame("HEADERS", 0, 1, []), PING],
      1,
      "protocol",
      "a header block broken off",
    ],
    [
      "CONTINUATION without end",
      [frame("HEADERS", 0, 1, [0x82]), ...repeat(17, () => frame("CONTINUATION", 0, 1, [0x82]))],
      11,
      "flood",
      "a header block without end",
    ],
    [
      "a header block twice as large as a head may be",
      [
        frame("HEADERS", 0, 1, new Uint8Array(16_384)),
        ...repeat(8, () => frame("CONTINUATION", 0, 1, new Uint8Array(16_384))),
      ],
      11,
      "flood",
      "a header block without end",
    ],
    [
      "empty CONTINUATION",
      [frame("HEADERS", 0, 1, [0x82]), ...repeat(2, () => frame("CONTINUATION", 0, 1))],
      11,
      "flood",
      "empty frames",
    ],
    [
      "empty DATA",
      [headers(1, POST, 0), ...repeat(2, () => frame("DATA", 0, 1))],
      11,
      "flood",
      "empty frames",
    ],
    [
      "DATA of padding",
      [headers(1, POST, 0), ...repeat(2, () => frame("DATA", PADDED, 1, [1, 0]))],
      11,
      "flood",
      "empty frames",
    ],
    ["PING", repeat(1_001, () => PING), 11, "flood", "PING and SETTINGS"],
    ["SETTINGS", repeat(1_001, () => settings()), 11, "flood", "PING and SETTINGS"],
    [
      "SETTINGS of many entries",
      [settings(...repeat(33, () => [3, 1] as const))],
      11,
      "protocol",
      "too many settings",
    ],
    [
      "PRIORITY",
      repeat(101, () => frame("PRIORITY", 0, 1, [0, 0, 0, 0, 1])),
      11,
      "flood",
      "PRIORITY",
    ],
    [
      "WINDOW_UPDATE",
      repeat(6, () => frame("WINDOW_UPDATE", 0, 0, u32(1))),
      11,
      "flood",
      "WINDOW_UPDATE",
    ],
    ["unknown frames", repeat(1_001, () => frame(77, 0, 0)), 11, "flood", "PING and SETTINGS"],
    [
      "RST_STREAM",
      [headers(1, GET), ...repeat(1_001, () => frame("RST_STREAM", 0, 1, u32(8)))],
      11,
      "flood",
      "RST_STREAM",
    ],
    [
      "streams that are reset at once",
      rapid(250, (id) => [headers(id, GET), frame("RST_STREAM", 0, id, u32(8))]),
      11,
      "flood",
      "streams that are reset at once",
    ],
    [
      "streams that we are made to reset",
      rapid(250, (id) => [
        headers(id, [...POST, ["content-length", "1"]], 0),
        frame("DATA", 0, id, [1, 2]),
      ]),
      11,
      "flood",
      "streams that are reset at once",
    ],
    [
      "requests that are malformed",
      rapid(250, (id) => [headers(id, [])]),
      11,
      "flood",
      "streams that are reset at once",
    ],
  ] as readonly (readonly [string, readonly Uint8Array[], number, string, string])[]
) {
  test(`${name} costs the connection`, async () => {
    const { peer, ends, server, requests } = await served();
    await peer.send(...frames);
    const goaway = peer.take().at(-1);
    assert.match(goaway ?? "", new RegExp(`^GOAWAY 0 last=\\d+ code=${code}$`));
    assert.deepEqual(ends, [{ by: "peer", kind, detail }]);
    assert.equal(server.active, 0);
    assert.equal(peer.closed, "closed");
    for (const { told } of requests) assert.ok(told.reset);
  });
}

function repeat<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}

function rapid(count: number, make: (id: number) => readonly Uint8Array[]): Uint8Array[] {
  return repeat(count, (i) => make(2 * i + 1)).flat();
}

const FULL = frame("DATA", 0, 1, new Uint8Array(16_384));

test("a paused exchange that gets more than its window loses its stream", async () => {
  const held = new HeldBytes(1 << 24);
  const { peer, requests } = await served({}, held);
  await peer.send(headers(1, POST, 0));
  requests[0]?.exchange.pause();
  await peer.send(...repeat(16, () => FULL));
  assert.deepEqual([peer.take(), requests[0]?.told.bytes, held.bytes], [[], 0, 262_144]);
  await peer.send(ONE_BYTE);
  assert.deepEqual(peer.take(), ["RST_STREAM 1 3"]);
  assert.deepEqual(requests[0]?.told.reset?.reason, "protocol");
  assert.equal(held.bytes, 0);
});

test("what a thread holds for slow readers counts against their connections beyond its limit", async () => {
  const held = new HeldBytes(300_000);
  const { peer, requests } = await served({}, held);
  const id = (i: number) => 2 * i + 1;
  await peer.send(...repeat(5, (i) => headers(id(i), POST, 0)));
  for (const { exchange } of requests) exchange.pause();
  for (let i = 0; i < 4; i++) {
    await peer.send(...repeat(16, () => frame("DATA", 0, id(i), new Uint8Array(16_384))));
  }
  assert.deepEqual(peer.take(), []);
  assert.equal(held.bytes, 294_912);
  requests[1]?.exchange.resume();
  assert.equal(requests[1]?.told.bytes, 262_144);
  await settle();
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 524288", "WINDOW_UPDATE 3 262144"]);
  await peer.send(...repeat(17, () => frame("DATA", 0, 9, new Uint8Array(16_384))));
  assert.ok(peer.take().includes("RST_STREAM 9 3"));
  for (const { exchange } of requests) exchange.reset("cancelled");
  assert.equal(held.bytes, 0);
});

test("DATA above the window of the whole connection ends it", async () => {
  const { peer, requests, ends } = await served({}, new HeldBytes(0));
  await peer.send(...repeat(5, (i) => headers(2 * i + 1, POST, 0)));
  for (const { exchange } of requests) exchange.pause();
  for (let i = 0; i < 4; i++) {
    await peer.send(...repeat(16, () => frame("DATA", 0, 2 * i + 1, new Uint8Array(16_384))));
  }
  assert.equal(ends.length, 0);
  await peer.send(frame("DATA", 0, 9, [1]));
  assert.deepEqual(peer.take(), ["GOAWAY 0 last=9 code=3"]);
});

test("a body of another length than was said loses its stream", async () => {
  const { peer, requests } = await served();
  const said = (id: number) => headers(id, [...POST, ["content-length", "2"]], 0);
  await peer.send(
    ...[said(1), frame("DATA", 0, 1, [1, 2, 3])],
    ...[said(3), frame("DATA", END_STREAM, 3, [1])],
    ...[said(5), frame("DATA", 0, 5, [1]), headers(5, [["a", "b"]])],
    ...[said(7), frame("DATA", 0, 7, [1]), frame("DATA", END_STREAM, 7, [2])],
  );
  assert.deepEqual(peer.take(), ["RST_STREAM 1 1", "RST_STREAM 3 1", "RST_STREAM 5 1"]);
  assert.deepEqual(requests.map(({ told }) => told.reset?.reason ?? told.ended), [
    ...["protocol", "protocol", "protocol", true],
  ]);
});

test("trailers come with the end; those that have no place there cost the stream", async () => {
  const { peer, requests } = await served();
  const body = (id: number) => [headers(id, POST, 0), frame("DATA", 0, id, [1])];
  await peer.send(
    ...[...body(1), headers(1, [["grpc-status", "0"]])],
    ...[...body(3), headers(3, [["content-length", "1"]])],
    ...[...body(5), headers(5, [[":path", "/"]])],
    ...[...body(7), headers(7, [["a", "b"]], 0)],
  );
  assert.deepEqual(requests[0]?.told.trailers, ["grpc-status", "0", "grpc-status"]);
  assert.deepEqual(peer.take(), ["RST_STREAM 3 1", "RST_STREAM 5 1", "RST_STREAM 7 1"]);
});

test("padding is given back, and is no body", async () => {
  const { peer, requests } = await served();
  await peer.send(
    frame("HEADERS", PADDED | END_HEADERS, 1, [3, ...block(POST), 0, 0, 0]),
    frame("DATA", PADDED | END_STREAM, 1, [2, 0x68, 0x69, 0, 0]),
  );
  assert.deepEqual([requests[0]?.told.text, requests[0]?.told.ended], ["hi", true]);
  for (let i = 0; i < 33; i++) {
    await peer.send(
      headers(2 * i + 3, POST, 0),
      frame("DATA", PADDED | END_STREAM, 2 * i + 3, [255, 1, ...new Uint8Array(16_000 + 255)]),
    );
  }
  assert.deepEqual(peer.take(), ["WINDOW_UPDATE 0 536486"]);
});

test("streams above the limit are refused, and others are not", async () => {
  const { peer, requests } = await served({ concurrentStreams: 2 });
  await peer.send(headers(1, GET), headers(3, GET), headers(5, GET));
  assert.deepEqual([peer.take(), requests.length], [["RST_STREAM 5 7"], 2]);
  requests[0]?.exchange.respond({ status: 204, length: -1, fields: [] }, true);
  await peer.send(headers(7, GET));
  assert.deepEqual([peer.take(), requests.length], [["HEADERS 1 end :status=204"], 3]);
});

test("an answer waits for the window that the client gives, and trailers for the answer", async () => {
  const { peer, requests } = await served({ bufferedBytes: 100 });
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
    ...["HEADERS 1 :status=200", "DATA 1 10"],
    ...["HEADERS 3 :status=200 content-length=3", "DATA 3 3 end"],
  ]);
  await peer.send(frame("WINDOW_UPDATE", 0, 1, u32(60)));
  assert.deepEqual([peer.take(), one?.told.drained], [["DATA 1 60"], 1]);
  await peer.send(settings([4, 30]));
  assert.deepEqual(peer.take(), ["SETTINGS 0 ack", "DATA 1 20"]);
  await peer.send(frame("WINDOW_UPDATE", 0, 1, u32(1000)));
  assert.deepEqual(peer.take(), ["DATA 1 20", "HEADERS 1 end a=b"]);
});

test("drain() announces, serves what was on its way, and ends with the last answer", async () => {
  const { peer, server, requests, ends } = await served();
  await peer.send(headers(1, GET));
  server.drain();
  server.drain();
  await settle();
  assert.deepEqual(peer.take(), ["GOAWAY 0 last=2147483647 code=0", "PING 0"]);
  await peer.send(headers(3, GET), frame("PING", 1, 0, new Uint8Array(8)), headers(5, GET));
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

test("a client that does not answer is not waited for", async () => {
  const { peer, server, clock, requests, ends } = await served();
  await peer.send(headers(1, GET));
  server.drain();
  await clock.advance(5_200);
  assert.equal(peer.take().at(-1), "GOAWAY 0 last=1 code=0");
  requests[0]?.exchange.reset("internal");
  assert.equal(ends.length, 1);
});

test("settings that are not acknowledged in time end the connection", async () => {
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
  test(`reset("${name}") is told as code ${code}`, async () => {
    const { peer, requests, server } = await served();
    await peer.send(headers(1, GET), headers(3, POST, 0));
    requests[0]?.exchange.reset(reason);
    requests[1]?.exchange.respond({ status: 200, length: 0, fields: [] }, true);
    requests[1]?.exchange.reset(reason);
    await settle();
    assert.deepEqual(peer.take(), [
      `RST_STREAM 1 ${code}`,
      // The answer was complete: the client is only told to stop.
      ...["HEADERS 3 end :status=200 content-length=0", "RST_STREAM 3 0"],
    ]);
    assert.equal(server.active, 0);
    // What was on its way is nobody's fault.
    await peer.send(frame("DATA", END_STREAM, 3, [1]), PING);
    assert.deepEqual(peer.take(), ["PING 0 ack"]);
  });
}

test("a client that reads nothing costs a bounded queue", async () => {
  const { peer, requests, ends } = await served();
  peer.stop();
  // The answers fill what the connection takes; then every PING would wait for ever.
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
