import assert from "node:assert/strict";
import { test } from "node:test";
import { headLength, MAX_HEAD_BYTES, parseHead, readChunked } from "./http_parse.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

test("headLength() finds the empty line, or says that it is not there", () => {
  assert.equal(headLength(bytes("GET / HTTP/1.1\r\n\r\nrest")), 18);
  assert.equal(headLength(bytes("GET / HTTP/1.1\r\n")), -1);
  assert.equal(headLength(new Uint8Array(MAX_HEAD_BYTES * 2)), -1);
});

test("parseHead() reads method, target, length and whether the connection stays", () => {
  const head = parseHead(
    bytes("PUT /v1/config?cas=0 HTTP/1.1\r\nContent-Length: 12\r\nX-A:  b \r\n\r\n"),
  );
  assert.equal(head?.method, "PUT");
  assert.equal(head?.target, "/v1/config?cas=0");
  assert.equal(head?.contentLength, 12);
  assert.equal(head?.headers.get("x-a"), "b");
  assert.equal(head?.keepAlive, true);
  assert.equal(parseHead(bytes("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"))?.keepAlive, false);
  assert.equal(parseHead(bytes("GET / HTTP/1.0\r\n\r\n"))?.keepAlive, false);
});

for (
  const text of [
    "",
    "\r\n\r\n",
    "GET  / HTTP/1.1\r\n\r\n",
    "GET http://x/ HTTP/1.1\r\n\r\n",
    "GET / HTTP/2\r\n\r\n",
    "get / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nno colon\r\n\r\n",
    "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "GET / HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01",
  ]
) {
  test(`parseHead() refuses ${JSON.stringify(text)}`, () => {
    assert.equal(parseHead(bytes(text)), undefined);
  });
}

test("readChunked() joins chunks and says how far it read, at every split", () => {
  const whole = bytes("4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\nTrailer: 1\r\n\r\n");
  for (let cut = 0; cut < whole.length; cut++) {
    assert.equal(readChunked(whole.subarray(0, cut)), "more", String(cut));
  }
  const read = readChunked(new Uint8Array([...whole, 71, 69, 84]));
  assert.ok(typeof read === "object");
  assert.equal(new TextDecoder().decode(read.body), "Wikipedia");
  assert.equal(read.used, whole.length);
});

test("readChunked() refuses a length that is none", () => {
  assert.equal(readChunked(bytes("zz\r\n")), "bad");
  assert.equal(readChunked(bytes("f".repeat(100))), "bad");
});
