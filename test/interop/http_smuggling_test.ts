/**
 * Bytes that are two requests for one reader and one for another never reach an application: each row is
 * sent as bytes, and the output at the other end of the pair is checked.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { FRAME, type RawField, RawHttp2Client } from "../kit/wire/http2_raw.ts";
import { type FilePair, startFilePair } from "../kit/mesh/file_pair.ts";
import {
  answerOf,
  RawClient,
  type RawOrigin,
  startRawOrigin,
  statusOf,
} from "../kit/wire/http_raw.ts";

/** `refused`: nothing of it reaches the application. `safe`: that, or exactly one clean request. */
type Wanted = "refused" | "safe";

const HOST = "Host: db\r\n";
const CHUNKED = "Transfer-Encoding: chunked\r\n";
/** The request that an attacker hopes to smuggle past the proxy. */
const HIDDEN = "GET /hidden HTTP/1.1\r\nHost: db\r\n\r\n";

const ROWS: readonly (readonly [name: string, bytes: string, wanted?: Wanted])[] = [
  ["a length and chunks", post(`Content-Length: 5\r\n${CHUNKED}`, `0\r\n\r\n${HIDDEN}`)],
  ["chunks and a length", post(`${CHUNKED}Content-Length: 5\r\n`, `0\r\n\r\n${HIDDEN}`)],
  ["a coding that only resembles chunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")],
  ["a coding on a folded line", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n")],
  ["a coding with space before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")],
  ["a coding with a control character", post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n")],
  ["another coding before chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")],
  ["chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n")],
  ["chunked in two fields", post(`${CHUNKED}${CHUNKED}`, "0\r\n\r\n")],
  ["chunks and identity", post(`${CHUNKED}Transfer-Encoding: identity\r\n`, "0\r\n\r\n")],
  ["chunks in HTTP/1.0", `POST / HTTP/1.0\r\n${HOST}${CHUNKED}\r\n0\r\n\r\n${HIDDEN}`],
  ["two lengths", post("Content-Length: 0\r\nContent-Length: 34\r\n", HIDDEN)],
  ["the same length twice", post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab"), "safe"],
  ["a list of lengths", post("Content-Length: 0, 34\r\n", HIDDEN)],
  ["a length with a sign", post("Content-Length: +5\r\n", "abcde")],
  ["a negative length", post("Content-Length: -5\r\n", "")],
  ["a hexadecimal length", post("Content-Length: 0x2\r\n", "ab")],
  ["a length with a space inside", post("Content-Length: 3 4\r\n", HIDDEN)],
  ["an empty length", post("Content-Length:\r\n", "")],
  ["a length above 2^64", post("Content-Length: 18446744073709551617\r\n", "a")],
  ["line feeds alone", "GET / HTTP/1.1\nHost: db\n\n"],
  ["one line feed alone", `GET / HTTP/1.1\r\nHost: db\nX: y\r\n\r\n`],
  ["a carriage return alone", get("X: a\rContent-Length: 34\r\n") + HIDDEN],
  ["a NUL in a value", get("X: a\0b\r\n")],
  ["no host", "GET / HTTP/1.1\r\n\r\n"],
  ["two hosts", get("Host: other\r\n")],
  ["an empty name", get(": x\r\n")],
  ["a space in a name", get("X y: z\r\n")],
  ["a space before the first name", `GET / HTTP/1.1\r\n Host: db\r\n\r\n`],
  ["a folded line", get("X: a\r\n b\r\n")],
  ["a field without a colon", get("Content-Length\r\n")],
  ["a chunk size with 0x", chunks("0x2\r\nab\r\n0\r\n\r\n")],
  ["a chunk size with a sign", chunks("+2\r\nab\r\n0\r\n\r\n")],
  ["a negative chunk size", chunks("-2\r\nab\r\n0\r\n\r\n")],
  ["an empty chunk size", chunks("\r\nab\r\n0\r\n\r\n")],
  ["a chunk size with an underscore", chunks("1_0\r\nab\r\n0\r\n\r\n")],
  ["a chunk size of 65 bits", chunks("10000000000000002\r\nab\r\n0\r\n\r\n")],
  ["a chunk longer than its size", chunks("2\r\nabc\r\n0\r\n\r\n")],
  ["no end of a chunk", chunks("2\r\nab0\r\n\r\n")],
  ["a line feed for a chunk's end", chunks("2\nab\r\n0\r\n\r\n")],
  ["a line feed in a chunk's extension", chunks("2;a\nb\r\nab\r\n0\r\n\r\n")],
  ["a chunk's extension", chunks("2;a=b\r\nab\r\n0\r\n\r\n"), "safe"],
  ["a length among the trailers", chunks("0\r\nContent-Length: 34\r\n\r\n") + HIDDEN, "safe"],
  ["a coding among the trailers", chunks(`0\r\n${CHUNKED}\r\n`), "safe"],
  ["a folded trailer", chunks("0\r\nX: a\r\n b\r\n\r\n")],
  ["a fragment", `GET /a#b HTTP/1.1\r\n${HOST}\r\n`],
  ["two spaces before the version", `GET /  HTTP/1.1\r\n${HOST}\r\n`],
  ["a space in the target", `GET /a b HTTP/1.1\r\n${HOST}\r\n`],
  ["a tab in the request line", `GET\t/ HTTP/1.1\r\n${HOST}\r\n`],
  ["no version", `GET /\r\n${HOST}\r\n`],
  ["version 1.2", `GET / HTTP/1.2\r\n${HOST}\r\n`],
  ["version 2.0", `GET / HTTP/2.0\r\n${HOST}\r\n`],
  ["a version in small letters", `GET / http/1.1\r\n${HOST}\r\n`],
  ["a method that is no token", `GE(T / HTTP/1.1\r\n${HOST}\r\n`],
  ["user information in the target", "GET http://a@db/ HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["another host in the target", "GET http://db/ HTTP/1.1\r\nHost: other\r\n\r\n", "safe"],
  ["CONNECT with a length", `CONNECT db:80 HTTP/1.1\r\nHost: db:80\r\nContent-Length: 34\r\n\r\n`],
  ["an unknown expectation", post("Expect: something\r\nContent-Length: 2\r\n", "ab")],
  ["an upgrade to HTTP/2", get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"), "safe"],
  ["a nominated length", post("Connection: Content-Length\r\nContent-Length: 2\r\n", "ab"), "safe"],
  ["101 fields", get(Array.from({ length: 101 }, (_, at) => `X-${at}: y\r\n`).join(""))],
  ["a head of 70 KiB", get(`X: ${"a".repeat(70 * 1024)}\r\n`)],
  ["the start of HTTP/2 in the middle", get("") + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "safe"],
];

function get(fields: string): string {
  return `GET / HTTP/1.1\r\n${HOST}${fields}\r\n`;
}

function post(fields: string, body: string): string {
  return `POST / HTTP/1.1\r\n${HOST}${fields}\r\n${body}`;
}

function chunks(body: string): string {
  return post(CHUNKED, body);
}

const BASE: readonly RawField[] = [
  [":method", "POST"],
  [":scheme", "http"],
  [":authority", "db"],
  [":path", "/"],
];
const FRAMES: readonly (readonly [name: string, fields: readonly RawField[], wanted?: Wanted])[] = [
  ["a coding", [...BASE, ["transfer-encoding", "chunked"]]],
  ["a connection", [...BASE, ["connection", "keep-alive"]]],
  ["an upgrade", [...BASE, ["upgrade", "h2c"]]],
  ["a tunnel of HTTP/2", [[":method", "CONNECT"], [":protocol", "h2c"], ...BASE.slice(1)]],
  ["a length with an underscore", [...BASE, ["content_length", "34"]]],
  ["a line end in a value", [...BASE, ["x", "a\r\nContent-Length: 34"]]],
  ["a line feed in a value", [...BASE, ["x", "a\nb"]]],
  ["a NUL in a value", [...BASE, ["x", "a\0b"]]],
  ["a line end in a name", [...BASE, ["x: y\r\nz", "a"]]],
  ["a colon in a name", [...BASE, ["x:y", "a"]]],
  ["a space in a name", [...BASE, ["x y", "a"]]],
  ["a capital in a name", [...BASE, ["X-Y", "a"]]],
  ["an empty name", [...BASE, ["", "a"]]],
  ["a line end in the path", path("/ HTTP/1.1\r\nX: y")],
  ["a space in the path", path("/a b")],
  ["a fragment in the path", path("/a#b")],
  ["an octet above ASCII in the query", path("/a?\xff")],
  ["an empty path", path("")],
  ["a path without a slash", path("a")],
  ["no path", BASE.filter(([name]) => name !== ":path")],
  ["two paths", [...BASE, [":path", "/hidden"]]],
  ["a pseudo-field after the others", [["x", "y"], ...BASE]],
  ["an unknown pseudo-field", [[":x", "y"], ...BASE]],
  ["a method that is no token", [[":method", "GET / HTTP/1.1\r\nX:"], ...BASE.slice(1)]],
  ["a line end in the host", [...BASE.slice(0, 2), [":authority", "db\r\nX: y"], [":path", "/"]]],
  ["another host", [...BASE, ["host", "other"]], "safe"],
  ["two hosts", [...BASE, ["host", "db"], ["host", "other"]], "safe"],
  ["two lengths", [...BASE, ["content-length", "0"], ["content-length", "34"]]],
  ["a length above what comes", [...BASE, ["content-length", "34"]]],
  ["a coding that is not trailers", [...BASE, ["te", "gzip"]], "safe"],
];

function path(value: string): readonly RawField[] {
  return BASE.map(([name, was]) => [name, name === ":path" ? value : was]);
}

interface Judge {
  readonly pair: FilePair;
  readonly origin: RawOrigin;
  /** The requests of the last row that reached the application. */
  reached(): Promise<readonly string[]>;
}

/** A request of its own that comes after whatever a row left under way. */
async function judge(pair: FilePair, origin: RawOrigin): Promise<Judge> {
  let seen = 0;
  let turn = 0;
  await Promise.resolve();
  return {
    pair,
    origin,
    async reached() {
      const sentinel = `/sentinel/${++turn}`;
      const answer = await RawClient.ask(
        pair.upstream,
        `GET ${sentinel} HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n`,
      );
      assert.equal(statusOf(answer), 200);
      const fresh = origin.requests.slice(seen);
      seen = origin.requests.length;
      assert.equal(fresh.at(-1)?.head.split(" ")[1], sentinel);
      assert.deepEqual(origin.faults, []);
      return fresh.slice(0, -1).map(({ raw }) => raw);
    },
  };
}

function assertReached(reached: readonly string[], wanted: Wanted): void {
  if (wanted === "refused") assert.deepEqual(reached, []);
  assert.ok(reached.length <= 1, `${reached.length} requests came of one`);
  for (const raw of reached) assert.ok(!/hidden|HTTP2-Settings/i.test(raw), raw);
}

test("nothing of an ambiguous HTTP/1.1 request reaches the application", async (t) => {
  await using origin = await startRawOrigin(() => answerOf("ok"));
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const { reached } = await judge(pair, origin);
  for (const [name, bytes, wanted = "refused"] of ROWS) {
    await t.test(name, async () => {
      await using client = await RawClient.open(pair.upstream);
      client.send(bytes);
      // A request that is incomplete for a strict reader is not answered before its end.
      client.socket.end();
      const answer = await client.responseOrEnd();
      if (wanted === "refused" && answer) {
        assert.ok(statusOf(answer) >= 400, `answered with ${answer.head}`);
      }
      assertReached(await reached(), wanted);
    });
  }
});

test("nothing of a malformed HTTP/2 request reaches the application as HTTP/1.1", async (t) => {
  await using origin = await startRawOrigin(() => answerOf("ok"));
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  const { reached } = await judge(pair, origin);
  for (const [name, fields, wanted = "refused"] of FRAMES) {
    await t.test(name, async () => {
      await using client = await RawHttp2Client.open(pair.upstream);
      client.headers(1, fields, true);
      await client.ended(1);
      assertReached(await reached(), wanted);
    });
  }
  await t.test("a body longer than its length", async () => {
    await using client = await RawHttp2Client.open(pair.upstream);
    client.headers(1, [...BASE, ["content-length", "1"]], false);
    const payload = Buffer.from(`a${HIDDEN}`);
    client.frame({ type: FRAME.data, flags: 1, stream: 1, payload });
    await client.ended(1);
    for (const raw of await reached()) assert.ok(!raw.includes("/hidden"), raw);
  });
});
