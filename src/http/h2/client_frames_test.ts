import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import { http2ClientRig } from "../../../test/kit/wire/http2_client_rig.ts";
import { bytes } from "../../../test/kit/wire/http2_pair.ts";
import {
  END_STREAM,
  frame,
  headers,
  type Pairs,
  settings,
  u32,
} from "../../../test/kit/wire/http2_wire.ts";
import type { RequestHead } from "../head.ts";

const OK: Pairs = [[":status", "200"]];
const HEAD_WORDS = ":method=GET :scheme=http :authority=db.example :path=/";
const goaway = (last: number, code = 0) => frame("GOAWAY", 0, 0, [...u32(last), ...u32(code)]);

test("a request's head is written with the pseudo-fields of HTTP/2, without fields of HTTP/1.1", async () => {
  const { request, peer } = await http2ClientRig();
  request({
    method: "PUT",
    scheme: "https",
    path: "/a?b",
    length: 3,
    expectsContinue: true,
    fields: [
      ...["x-a", "1", "X-A"],
      ...["connection", "close", "Connection"],
      ...["te", "gzip", "TE"],
      ...["host", "evil", "Host"],
      ...["te", "trailers", "TE"],
    ],
  }, false);
  request({ method: "POST" });
  request({ scheme: "" });
  await settle();
  assert.deepEqual(peer.take(), [
    "HEADERS 1 :method=PUT :scheme=https :authority=db.example :path=/a?b content-length=3 " +
    "expect=100-continue x-a=1 te=trailers",
    "HEADERS 3 end :method=POST :scheme=http :authority=db.example :path=/ content-length=0",
    `HEADERS 5 end ${HEAD_WORDS}`,
  ]);
});

test("a head larger than a frame continues in CONTINUATION", async () => {
  const { request, peer } = await http2ClientRig();
  request({ fields: ["x-long", "x".repeat(40_000), "x-long"] });
  await settle();
  assert.deepEqual(peer.take(), ["HEADERS 1 end more", "CONTINUATION 1", "CONTINUATION 1"]);
});

test("a request after a response longer than the window begins with a larger window", async () => {
  const { request, peer } = await http2ClientRig();
  const answer = (id: number, length: number) =>
    peer.send(headers(id, [...OK, ["content-length", String(length)]], 0));
  request();
  await answer(1, 65_537);
  request();
  await settle();
  const wide = `WINDOW_UPDATE 3 ${3 * 65_536}`;
  assert.deepEqual(peer.take(), [
    `HEADERS 1 end ${HEAD_WORDS}`,
    `HEADERS 3 end ${HEAD_WORDS}`,
    wide,
  ]);
  await answer(3, 65_536);
  request();
  await settle();
  assert.deepEqual(peer.take(), [`HEADERS 5 end ${HEAD_WORDS}`]);
});

test("requests of one connection grow their windows by no more than its share", async () => {
  const { request, peer } = await http2ClientRig();
  request();
  await peer.send(headers(1, [...OK, ["content-length", "1000000"]], 0));
  peer.take();
  for (let count = 0; count < 40; count++) request();
  await settle();
  const updates = peer.take().filter((words) => words.startsWith("WINDOW_UPDATE"));
  // A connection may borrow a sixteenth of the thread's 64 MiB.
  assert.equal(updates.length, Math.floor((1 << 22) / (3 * 65_536)));
});

/** Malformed responses, which are errors of their stream only. */
for (
  const [name, head, frames, detail] of [
    ["without a status", {}, [headers(1, [["a", "b"]])], "no valid status"],
    ["with a status of two digits", {}, [headers(1, [[":status", "20"]])], "no valid status"],
    ["with status 101", {}, [headers(1, [[":status", "101"]], 0)], "status 101"],
    [
      "with a path",
      {},
      [headers(1, [...OK, [":path", "/"]])],
      "a pseudo-field that does not belong there",
    ],
    [
      "with connection",
      {},
      [headers(1, [...OK, ["connection", "close"]])],
      "a field that has no place in HTTP/2",
    ],
    [
      "that is informational and ends the stream",
      {},
      [headers(1, [[":status", "103"]])],
      "an informational response as the last",
    ],
    ...["103", "204"].map((status) =>
      [
        `of ${status} with a length`,
        {},
        [headers(1, [[":status", status], ["content-length", "1"]], 0)],
        "a length without a body",
      ] as const
    ),
    [
      "with a declared length and no body",
      {},
      [headers(1, [...OK, ["content-length", "1"]])],
      "a length without a body",
    ],
    [
      "to HEAD with a body",
      { method: "HEAD" },
      [headers(1, [...OK, ["content-length", "1"]], 0), frame("DATA", END_STREAM, 1, [1])],
      "a body of another length",
    ],
    [
      "with status 204 and a body",
      {},
      [headers(1, [[":status", "204"]], 0), frame("DATA", END_STREAM, 1, [1])],
      "a body of another length",
    ],
    ["of a body without a head", {}, [frame("DATA", END_STREAM, 1, [1])], "DATA without a head"],
    [
      "shorter than its declared length",
      {},
      [headers(1, [...OK, ["content-length", "2"]], 0), frame("DATA", END_STREAM, 1, [1])],
      "a body of another length",
    ],
  ] as readonly (readonly [string, Partial<RequestHead>, readonly Uint8Array[], string])[]
) {
  test(`a response ${name} breaks its exchange and no other`, async () => {
    const { request, peer, ends } = await http2ClientRig();
    const broken = request(head);
    const other = request();
    await peer.send(...frames, headers(3, OK));
    assert.deepEqual(broken.recorded.reset, { reason: "protocol", detail });
    assert.equal(other.recorded.response?.status, 200);
    assert.equal(peer.take().at(-1), "RST_STREAM 1 1");
    assert.deepEqual(ends, []);
  });
}

test("a response keeps fields that have a meaning in requests only", async () => {
  const { request, peer } = await http2ClientRig();
  const { recorded } = request();
  await peer.send(headers(1, [...OK, ["host", "a"], ["expect", "b"]]));
  assert.deepEqual(recorded.response?.fields, ["host", "a", "host", "expect", "b", "expect"]);
});

test("a response without a body reports its declared length", async () => {
  const { request, peer } = await http2ClientRig();
  const [head, same, none] = [request({ method: "HEAD" }), request(), request()];
  await peer.send(
    headers(1, [...OK, ["content-length", "10"]]),
    headers(3, [[":status", "304"], ["content-length", "10"]]),
    headers(5, OK),
  );
  assert.deepEqual(
    [head, same, none].map((
      { recorded },
    ) => [recorded.response?.length, recorded.ended, recorded.reset]),
    [[10, true, undefined], [10, true, undefined], [-1, true, undefined]],
  );
});

for (
  const [code, reason] of [
    [0, "cancelled"],
    [1, "protocol"],
    [2, "internal"],
    [3, "protocol"],
    [7, "refused"],
    [8, "cancelled"],
    [10, "connection"],
    [11, "overflow"],
    [13, "protocol"],
    [99, "protocol"],
  ] as const
) {
  test(`RST_STREAM with code ${code} is reported as ${reason}`, async () => {
    const { request, peer, client } = await http2ClientRig();
    const { recorded } = request();
    await peer.send(frame("RST_STREAM", 0, 1, u32(code)));
    assert.equal(recorded.reset?.reason, reason);
    assert.equal(client.active, 0);
  });
}

test("RST_STREAM after a complete response does not break the exchange", async () => {
  const { request, peer, client } = await http2ClientRig();
  const { recorded, exchange } = request({ length: -1 }, false);
  await peer.send(headers(1, OK), frame("RST_STREAM", 0, 1, u32(0)));
  assert.deepEqual([recorded.ended, recorded.reset, client.active], [true, undefined, 0]);
  peer.take();
  assert.equal(exchange.send(bytes("more")), true);
  exchange.end();
  await settle();
  assert.deepEqual(peer.take(), []);
});

test("capacity follows the server's limit, and onCapacity() reports growth and the end", async () => {
  const { request, peer, client, capacities } = await http2ClientRig([[3, 2]]);
  assert.deepEqual([client.capacity, capacities], [2, [2]]);
  const first = request();
  request();
  assert.equal(client.capacity, 0);
  assert.throws(() => request());
  first.exchange.reset("cancelled");
  assert.deepEqual(capacities, [2, 1]);
  await peer.send(settings([3, 5]));
  assert.deepEqual(capacities, [2, 1, 4]);
  await peer.send(goaway(3));
  assert.deepEqual([capacities, client.capacity], [[2, 1, 4, 0], 0]);
});

test("capacity is 100 until the server's SETTINGS come", async () => {
  assert.equal((await http2ClientRig(null)).client.capacity, 100);
  assert.equal((await http2ClientRig([])).client.capacity > 100, true);
});

test("a GOAWAY refuses requests above its last stream, and the others finish", async () => {
  const { request, peer, client, ends } = await http2ClientRig();
  const [one, two] = [request(), request()];
  await peer.send(goaway(0x7fff_ffff));
  assert.deepEqual([client.capacity, one.recorded.reset, two.recorded.reset], [
    0,
    undefined,
    undefined,
  ]);
  await peer.send(goaway(1));
  assert.deepEqual([one.recorded.reset, two.recorded.reset?.reason], [undefined, "refused"]);
  assert.deepEqual([client.active, ends], [1, []]);
  await peer.send(headers(1, OK));
  assert.deepEqual([one.recorded.ended, client.active], [true, 0]);
  assert.deepEqual(ends, [{ by: "us", kind: "closed", detail: "drained" }]);
});

test("drain() closes the connection after open requests have ended", async () => {
  const { request, peer, client, ends, capacities } = await http2ClientRig();
  const { recorded } = request();
  client.drain();
  assert.equal(capacities.at(-1), 0);
  await peer.send(headers(1, OK));
  assert.deepEqual([recorded.ended, ends.length, peer.closed], [true, 1, "closed"]);
});

test("reset() reports its reason to the exchanges and the owner", async () => {
  const { request, client, ends } = await http2ClientRig();
  const { recorded } = request();
  client.reset("a rotated identity");
  assert.deepEqual(recorded.reset, { reason: "connection", detail: "a rotated identity" });
  assert.deepEqual(ends, [{ by: "us", kind: "reset", detail: "a rotated identity" }]);
  assert.equal(client.capacity, 0);
});

test("a broken connection breaks its exchanges, except complete responses", async () => {
  const { request, peer, ends } = await http2ClientRig();
  const half = request({ length: -1 }, false);
  const open = request();
  const held = request();
  held.exchange.pause();
  await peer.send(
    headers(1, OK),
    headers(5, OK, 0),
    frame("DATA", END_STREAM, 5, bytes("kept")),
  );
  peer.leave();
  await settle();
  assert.deepEqual(half.recorded.reset, undefined);
  assert.equal(open.recorded.reset?.reason, "connection");
  assert.deepEqual([held.recorded.reset, held.recorded.text], [undefined, ""]);
  held.exchange.resume();
  assert.deepEqual([held.recorded.text, held.recorded.ended], ["kept", true]);
  assert.deepEqual(ends.map(({ by }) => by), ["network"]);
});

test("an extended CONNECT waits for SETTINGS, and fails if the server does not support it", async () => {
  for (
    const [said, words, reset] of [
      [[[8, 1]], ["SETTINGS 0 ack", /^HEADERS 1 :method=CONNECT :protocol=websocket /], undefined],
      [[], ["SETTINGS 0 ack"], "internal"],
    ] as const
  ) {
    const { request, peer, client } = await http2ClientRig(null);
    const { recorded, exchange } = request({ upgrade: "websocket" });
    exchange.send(bytes("early"));
    await settle();
    assert.deepEqual([peer.take(), client.active], [[], 1]);
    await peer.send(settings(...said));
    const came = peer.take();
    if (words[1]) assert.match(came[1] ?? "", words[1]);
    assert.deepEqual([came[0], came[2]], ["SETTINGS 0 ack", words[1] && "DATA 1 5"]);
    assert.equal(recorded.reset?.reason, reset);
  }
});

test("a waiting extended CONNECT can be reset, and breaks with its connection", async () => {
  const { request, peer, client } = await http2ClientRig(null);
  const [given, left] = [request({ upgrade: "websocket" }), request({ upgrade: "websocket" })];
  given.exchange.reset("cancelled");
  client.reset("");
  await peer.send(settings([8, 1]));
  assert.deepEqual([given.recorded.reset, left.recorded.reset?.reason], [undefined, "connection"]);
  assert.deepEqual([peer.take(), client.active], [[], 0]);
});

test("a keep-alive sends PING to a silent server with open requests, and ends the connection without an answer", async () => {
  const { request, peer, clock, ends } = await http2ClientRig([], {
    intervalMs: 1_000,
    timeoutMs: 500,
  });
  await clock.advance(2_300);
  assert.deepEqual(peer.take(), [], "no request is open");
  request();
  await clock.advance(0);
  peer.take();
  await clock.advance(1_000);
  assert.deepEqual(peer.take(), ["PING 0"]);
  await peer.send(frame("PING", 1, 0, new Uint8Array(8)));
  await clock.advance(1_700);
  assert.deepEqual([peer.take(), ends], [["PING 0"], []]);
  await clock.advance(700);
  assert.deepEqual(ends, [{ by: "peer", kind: "timed_out", detail: "no answer to a PING" }]);
});

for (
  const [name, frames, code] of [
    ["PUSH_PROMISE", [frame("PUSH_PROMISE", 4, 1, [0, 0, 0, 2])], 1],
    ["settings that allow a push", [settings([2, 1])], 1],
    ["HEADERS on an idle stream", [headers(3, OK)], 1],
    ["a stream of the server's own", [headers(2, OK)], 1],
    ["HEADERS after the end", [headers(1, OK), headers(1, OK)], 5],
    ["frames before its settings", [frame("PING", 0, 0, new Uint8Array(8))], 1],
  ] as readonly (readonly [string, readonly Uint8Array[], number])[]
) {
  test(`a server that sends ${name} loses the connection`, async () => {
    const early = name.startsWith("frames before");
    const { request, peer, ends } = await http2ClientRig(early ? null : []);
    const { recorded } = request();
    await peer.send(...frames);
    assert.equal(peer.take().at(-1), `GOAWAY 0 last=0 code=${code}`);
    assert.equal(ends[0]?.kind, "protocol");
    assert.equal(
      recorded.ended || ["connection", "protocol"].includes(recorded.reset?.reason ?? ""),
      true,
    );
  });
}

test("more than 32 informational responses break the exchange", async () => {
  const { request, peer } = await http2ClientRig();
  const { recorded } = request();
  await peer.send(...Array.from({ length: 33 }, () => headers(1, [[":status", "103"]], 0)));
  assert.deepEqual([recorded.informational.length, recorded.reset?.reason], [32, "overflow"]);
});

test("responses to requests that were reset long ago are ignored", async () => {
  const { request, peer, ends } = await http2ClientRig();
  const asked = Array.from({ length: 1_100 }, () => request());
  for (const { exchange } of asked) exchange.reset("cancelled");
  await peer.send(headers(1, OK, 0), headers(2_199, OK, 0), frame("DATA", 0, 2_199, [1]));
  assert.deepEqual(ends, []);
});
