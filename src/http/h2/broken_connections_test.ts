import assert from "node:assert/strict";
import test from "node:test";
import { http2ServerRig } from "../../../test/kit/wire/http2_server_rig.ts";
import {
  frame,
  GET,
  headers,
  PADDED,
  POST,
  repeat,
  settings,
  u32,
} from "../../../test/kit/wire/http2_wire.ts";

const RST = frame("RST_STREAM", 0, 1, u32(8));
const ONE_BYTE = frame("DATA", 0, 1, [0x61]);
const PING = frame("PING", 0, 0, new Uint8Array(8));

/** Frames after the handshake that end the connection, the code of its GOAWAY, and the reported end. */
for (
  const [name, frames, code, kind, detail] of [
    ["DATA on an idle stream", [ONE_BYTE], 1, "protocol", "DATA on no stream"],
    ["RST_STREAM on an idle stream", [RST], 1, "protocol", "RST_STREAM on no stream"],
    [
      "a stream with a server's number",
      [headers(2, GET)],
      1,
      "protocol",
      "a stream of the wrong side",
    ],
    ["PUSH_PROMISE", [frame("PUSH_PROMISE", 4, 1, [0, 0, 0, 2])], 1, "protocol", "PUSH_PROMISE"],
    [
      "a broken header block",
      [frame("HEADERS", 5, 1, [0x80])],
      9,
      "protocol",
      "an index that names no field",
    ],
    [
      "a frame above the size limit",
      [frame("PING", 0, 0, new Uint8Array(16_385))],
      6,
      "protocol",
      "a frame of the wrong size",
    ],
    [
      "an incomplete header block",
      [frame("HEADERS", 0, 1, []), PING],
      1,
      "protocol",
      "a header block broken off",
    ],
    [
      "endless CONTINUATION",
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
      "DATA with padding only",
      [headers(1, POST, 0), ...repeat(2, () => frame("DATA", PADDED, 1, [1, 0]))],
      11,
      "flood",
      "empty frames",
    ],
    ["PING", repeat(1_001, () => PING), 11, "flood", "PING and SETTINGS"],
    ["SETTINGS", repeat(1_001, () => settings()), 11, "flood", "PING and SETTINGS"],
    [
      "SETTINGS with many entries",
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
      "streams that make us reset them",
      rapid(250, (id) => [
        headers(id, [...POST, ["content-length", "1"]], 0),
        frame("DATA", 0, id, [1, 2]),
      ]),
      11,
      "flood",
      "streams that are reset at once",
    ],
    [
      "malformed requests",
      rapid(250, (id) => [headers(id, [])]),
      11,
      "flood",
      "streams that are reset at once",
    ],
  ] as readonly (readonly [string, readonly Uint8Array[], number, string, string])[]
) {
  test(`${name} ends the connection`, async () => {
    const { peer, ends, server, requests } = await http2ServerRig();
    await peer.send(...frames);
    const goaway = peer.take().at(-1);
    assert.match(goaway ?? "", new RegExp(`^GOAWAY 0 last=\\d+ code=${code}$`));
    assert.deepEqual(ends, [{ by: "peer", kind, detail }]);
    assert.equal(server.active, 0);
    assert.equal(peer.closed, "closed");
    for (const { recorded } of requests) assert.ok(recorded.reset);
  });
}

test("empty frames with content between them are allowed", async () => {
  const empty = frame("DATA", 0, 1, []);
  const { peer, ends } = await http2ServerRig();
  await peer.send(headers(1, POST, 0), empty, frame("DATA", 0, 1, [1]), empty);
  await peer.send(headers(3, GET), empty);
  assert.deepEqual(ends, []);
});

function rapid(count: number, make: (id: number) => readonly Uint8Array[]): Uint8Array[] {
  return repeat(count, (i) => make(2 * i + 1)).flat();
}
