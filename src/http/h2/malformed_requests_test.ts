import assert from "node:assert/strict";
import test from "node:test";
import { http2ServerRig } from "../../../test/kit/wire/http2_server_rig.ts";
import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  GET,
  headers,
  type Pairs,
  POST,
} from "../../../test/kit/wire/http2_wire.ts";

const without = (name: string): Pairs => GET.filter(([field]) => field !== name);
const CONNECT: Pairs = [[":method", "CONNECT"], [":authority", "db:80"]];

/** Malformed requests, which are errors of their stream only. */
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
    [
      "with settings of an upgrade",
      [...GET, ["http2-settings", "AAMAAABkAAQAAP__"]],
      "a field that has no place in HTTP/2",
    ],
    [
      "with a length under another name",
      [...GET, ["content_length", "0"]],
      "a field that has no place in HTTP/2",
    ],
    ...["db:80:90", "db:999999", "[::1", "a,b", "db]"].map((authority) =>
      [
        `for ${authority}`,
        [...without(":authority"), [":authority", authority]],
        "no valid authority",
      ] as const
    ),
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
    [
      "for a tunnel of HTTP/2",
      [[":protocol", "H2C"], [":method", "CONNECT"], ...without(":method")],
      "no valid protocol",
    ],
    [
      "for a tunnel with a length",
      [
        [":protocol", "websocket"],
        [":method", "CONNECT"],
        ...without(":method"),
        ["content-length", "1"],
      ],
      "CONNECT with a length",
    ],
    ["with a protocol and GET", [...GET, [":protocol", "websocket"]], "a protocol without CONNECT"],
  ] as readonly (readonly [string, Pairs, string])[]
) {
  test(`a request ${name} resets its stream and no other`, async () => {
    const { peer, requests, invalid } = await http2ServerRig();
    await peer.send(headers(1, fields), headers(3, GET));
    assert.deepEqual(peer.take(), ["RST_STREAM 1 1"]);
    assert.deepEqual(invalid, [`0 ${fault}`]);
    assert.deepEqual(requests.map(({ exchange }) => exchange.request.path), ["/"]);
  });
}

test("the fields of a request become its head", async () => {
  const { peer, requests } = await http2ServerRig();
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
    saysLength: true,
    expectsContinue: true,
    fields: ["cookie", "a=1; b=2; c=3", "cookie", "te", "trailers", "te"],
    version: "HTTP/2",
    ownNames: undefined,
  });
  await peer.send(headers(3, GET));
  const { length, saysLength } = requests[1]?.exchange.request ?? assert.fail("no request");
  assert.deepEqual([length, saysLength], [0, false]);
});

/** Heads that the codec itself answers. */
for (
  const [name, frames, answers] of [
    [
      "of too many fields",
      [headers(1, [...GET, ...Array.from({ length: 101 }, () => ["a", "b"] as const)])],
      ["HEADERS 1 end :status=431"],
    ],
    [
      "of too many octets with its last frame",
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
      "of a few octets that decode to forty megabytes",
      [
        frame("HEADERS", END_STREAM | END_HEADERS, 1, [
          ...block(GET),
          ...[0x40, 1, 0x61, 0x7f, ...[0xa1, 0x1e], ...new Uint8Array(4_000).fill(0x78)],
          ...new Uint8Array(10_000).fill(0xbe),
        ]),
      ],
      ["HEADERS 1 end :status=431"],
    ],
    [
      "with an unknown expectation and a body to come",
      [headers(1, [...POST, ["expect", "more"]], 0)],
      ["HEADERS 1 end :status=417", "RST_STREAM 1 0"],
    ],
  ] as readonly (readonly [string, readonly Uint8Array[], readonly string[]])[]
) {
  test(`a request ${name} is refused by a response, and the connection continues`, async () => {
    const { peer, requests, invalid } = await http2ServerRig();
    await peer.send(...frames, headers(3, GET));
    assert.deepEqual(peer.take(), answers);
    assert.equal(invalid.length, 1);
    assert.equal(requests.length, 1);
  });
}
