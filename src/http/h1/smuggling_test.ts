/**
 * Ambiguous bytes never become a request for an application, nor a response for a caller: the
 * tables of requests and responses are sent whole and one byte at a time.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, http1ClientRig, serveRaw } from "../../../test/kit/wire/http1.ts";

const GET = "GET / HTTP/1.1\r\nHost: db\r\n";
const POST = "POST / HTTP/1.1\r\nHost: db\r\n";
const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n`;
/** A request of its own for a reader that ends the one before it earlier. */
const HIDDEN = "GET /admin HTTP/1.1\r\nHost: db\r\n\r\n";

/** A low limit, so that a small head is too large. */
const LIMITS = { headBytes: 1_000 };

/** Heads that are refused before a handler is called, with the status. */
const HEADS: readonly (readonly [string, string, number?])[] = [
  // Framing.
  ["length and chunked", `${CHUNKED}Content-Length: 3\r\n\r\n0\r\n\r\n`],
  ["chunked and length", `${POST}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc`],
  ["two lengths", `${POST}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde`],
  ["two equal lengths", `${POST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`],
  ["a list of lengths", `${POST}Content-Length: 3, 3\r\n\r\nabc`],
  ["a length with a sign", `${POST}Content-Length: +5\r\n\r\nabcde`],
  ["a negative length", `${POST}Content-Length: -1\r\n\r\n`],
  ["a length with a space", `${POST}Content-Length: 1 0\r\n\r\n`],
  ["a length in hexadecimal", `${POST}Content-Length: 0x3\r\n\r\nabc`],
  ["an empty length", `${POST}Content-Length: \r\n\r\n`],
  ["a length above the number limit", `${POST}Content-Length: 99999999999999999999\r\n\r\n`],
  ["an unknown coding", `${POST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`, 501],
  ["gzip before chunked", `${POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 501],
  ["chunked twice", `${POST}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`, 501],
  ["identity", `${POST}Transfer-Encoding: identity\r\n\r\n`, 501],
  ["an empty coding", `${POST}Transfer-Encoding:\r\n\r\n`, 501],
  ["a quoted coding", `${POST}Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n`, 501],
  ["a coding with a vertical tab", `${POST}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n`],
  ["a coding with a hard space", `${POST}Transfer-Encoding: chunked\xa0\r\n\r\n0\r\n\r\n`, 501],
  ["two codings", `${CHUNKED}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["two codings, one unknown", `${CHUNKED}Transfer-Encoding: cow\r\n\r\n0\r\n\r\n`],
  ["a folded coding", `${POST}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`, 501],
  ["a coding before a colon with a space", `${POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
  ["a length before a colon with a tab", `${POST}Content-Length\t: 3\r\n\r\nabc`],
  ["chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  [
    "chunked in 1.0, kept",
    "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
  ],
  ["an underscore for a hyphen", `${POST}Content_Length: 3\r\n\r\nabc`],
  [
    "CONNECT with a length",
    "CONNECT db:80 HTTP/1.1\r\nHost: db:80\r\nContent-Length: 3\r\n\r\nabc",
  ],
  [
    "CONNECT chunked",
    "CONNECT db:80 HTTP/1.1\r\nHost: db:80\r\nTransfer-Encoding: chunked\r\n\r\n",
  ],
  ["an upgrade chunked", `${CHUNKED}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n0\r\n\r\n`],
  // Lines.
  ["bare LF line ends", "GET / HTTP/1.1\nHost: db\n\n"],
  ["a bare LF after the request line", "GET / HTTP/1.1\nHost: db\r\n\r\n"],
  ["a bare LF between fields", `${GET}A: b\nTransfer-Encoding: chunked\r\n\r\n`],
  ["a bare LF at the end", `${GET}A: b\r\n\n`],
  ["a bare CR in a value", `${GET}A: b\rContent-Length: 3\r\n\r\n`],
  ["a bare CR in a name", `${GET}A\r: b\r\n\r\n`],
  ["a surplus CR", `${GET}A: b\r\r\n\r\n`],
  ["NUL in a value", `${GET}A: b\0c\r\n\r\n`],
  ["a control character in a value", `${GET}A: b\x01c\r\n\r\n`],
  ["DEL in a value", `${GET}A: b\x7fc\r\n\r\n`],
  ["a folded line", `${GET}A: b\r\n c\r\n\r\n`],
  ["a folded first line", "GET / HTTP/1.1\r\n Host: db\r\n\r\n"],
  ["a line without a colon", `${GET}Content-Length\r\n\r\n`],
  ["an empty name", `${GET}: b\r\n\r\n`],
  ["a space in a name", `${GET}A B: c\r\n\r\n`],
  ["a NUL in a name", `${GET}A\0: c\r\n\r\n`],
  ["a letter beyond ASCII in a name", `${GET}\xc4: c\r\n\r\n`],
  ["a pseudo-field", `${GET}:path: /admin\r\n\r\n`],
  ["two empty lines before the request", `\r\n\r\n${GET}\r\n`],
  ["a bare LF before the request", `\n${GET}\r\n`],
  // The request line.
  ["no version", "GET /\r\nHost: db\r\n\r\n"],
  ["another version", "GET / HTTP/1.2\r\nHost: db\r\n\r\n", 505],
  ["HTTP/2.0 as the version", "GET / HTTP/2.0\r\nHost: db\r\n\r\n", 505],
  ["HTTP/0.9", "GET / HTTP/0.9\r\nHost: db\r\n\r\n", 505],
  ["a version with more digits", "GET / HTTP/1.10\r\nHost: db\r\n\r\n"],
  ["a version in lower case", "GET / http/1.1\r\nHost: db\r\n\r\n"],
  ["a version with a tail", "GET / HTTP/1.1 \r\nHost: db\r\n\r\n"],
  ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
  ["two spaces", "GET  / HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a tab for a space", "GET\t/ HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a space before the method", " GET / HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a space in the target", "GET /a b HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a method with a colon", "GET: / HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a method in brackets", "(GET) / HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a fragment", "GET /a#b HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a control character in the target", "GET /a\x01 HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["an octet above ASCII in the target", "GET /\xe4 HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a target without a slash", "GET a HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["an asterisk with GET", "GET * HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["another scheme", "GET ftp://db/ HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["user information", "GET http://a@db/ HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["an absolute target without a host", "GET http:///a HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["a backslash in an authority", "GET http://db\\a/ HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["an absolute target with a port alone", "GET http://:80/a HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["CONNECT to a port alone", "CONNECT :80 HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["CONNECT without a port", "CONNECT db HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["CONNECT to a path", "CONNECT / HTTP/1.1\r\nHost: db\r\n\r\n"],
  ["CONNECT with user information", "CONNECT a@db:80 HTTP/1.1\r\nHost: db\r\n\r\n"],
  // Host.
  ["no host", "GET / HTTP/1.1\r\n\r\n"],
  ["no host with an absolute target", "GET http://db/ HTTP/1.1\r\n\r\n"],
  ["two hosts", `${GET}Host: other\r\n\r\n`],
  ["the same host twice", `${GET}Host: db\r\n\r\n`],
  ["a host with a space before the colon", "GET / HTTP/1.1\r\nHost : db\r\n\r\n"],
  ["a host with user information", "GET / HTTP/1.1\r\nHost: a@db\r\n\r\n"],
  ["a list of hosts", "GET / HTTP/1.1\r\nHost: db, other\r\n\r\n"],
  ["a host with a path", "GET / HTTP/1.1\r\nHost: db/admin\r\n\r\n"],
  ["a host that is a colon", "GET / HTTP/1.1\r\nHost: :\r\n\r\n"],
  ["a port that is not a number", "GET / HTTP/1.1\r\nHost: db:8o\r\n\r\n"],
  // Protected fields and unsupported demands.
  ["Connection names X-Forwarded-For", `${GET}Connection: X-Forwarded-For\r\n\r\n`],
  ["Connection names X-Forwarded-Proto", `${GET}Connection: close, x-forwarded-proto\r\n\r\n`],
  ["Connection names XFCC", `${GET}Connection: x-forwarded-client-cert\r\n\r\n`],
  ["Connection names Authorization", `${GET}Connection: Authorization\r\n\r\n`],
  ["Connection names Host", `${GET}Connection: host\r\n\r\n`],
  ["Connection names Cookie", `${GET}Connection: keep-alive , Cookie\r\n\r\n`],
  ["Connection names a pseudo-field", `${GET}Connection: :path\r\n\r\n`],
  ["Connection with a space in a token", `${GET}Connection: a b\r\n\r\n`],
  ["Connection names ten fields", `${GET}Connection: a,b,c,d,e,f,g,h,i,j\r\n\r\n`],
  ["another underscore for a hyphen", `${POST}TRANSFER_ENCODING: chunked\r\n\r\n0\r\n\r\n`],
  ["another expectation", `${POST}Expect: 200-ok\r\nContent-Length: 3\r\n\r\n`, 417],
  ["too many fields", `${GET}${"A: b\r\n".repeat(100)}\r\n`, 431],
  ["a head above the size limit", `${GET}A: ${"b".repeat(1_000)}\r\n\r\n`, 431],
  ["a target above the size limit", `GET /${"a".repeat(1_000)} HTTP/1.1\r\nHost: db\r\n\r\n`, 431],
  ["TLS", "\x16\x03\x01\x00\x05hello\r\n\r\n"],
];

for (const [name, raw, status = 400] of HEADS) {
  test(`serveHttp1() refuses ${name}`, async () => {
    for (const bytewise of [false, true]) {
      const { client, seen, invalid, ends } = serveRaw({
        limits: LIMITS,
        onComplete: (one) => answer(one),
      });
      await client.send(raw + HIDDEN, { bytewise });
      assert.match(
        client.take(),
        new RegExp(`^HTTP/1.1 ${status} [^]*connection: close\r\n\r\n[A-Z]`),
      );
      assert.equal(client.over, "end");
      assert.deepEqual(seen, []);
      assert.deepEqual(invalid.map((one) => one.slice(0, 4)), [`${status} `]);
      client.connection.end();
      await client.send("");
      assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["peer", "protocol"]]);
    }
  });
}

/** Chunked bodies that are refused after their head. */
const BODIES: readonly (readonly [string, string])[] = [
  ["a size with 0x", "0x2\r\nab\r\n0\r\n\r\n"],
  ["a size with an underscore", "1_0\r\nab\r\n0\r\n\r\n"],
  ["a size with a sign", "+2\r\nab\r\n0\r\n\r\n"],
  ["a negative size", "-2\r\nab\r\n0\r\n\r\n"],
  ["a missing size", "\r\nab\r\n0\r\n\r\n"],
  ["an extension without a size", ";a=b\r\nab\r\n0\r\n\r\n"],
  ["a space before a size", " 2\r\nab\r\n0\r\n\r\n"],
  ["a space after a size", "2 \r\nab\r\n0\r\n\r\n"],
  ["a size beyond 63 bits", "10000000000000002\r\nab\r\n0\r\n\r\n"],
  ["a size with too many digits", "00000000000000000000002\r\nab\r\n0\r\n\r\n"],
  ["a size that is not a number", "2g\r\nab\r\n0\r\n\r\n"],
  ["a bare LF after a size", "2\nab\r\n0\r\n\r\n"],
  ["a bare CR after a size", "2\rab\r\n0\r\n\r\n"],
  ["a bare LF in an extension", "2;a\nab\r\n0\r\n\r\n"],
  ["a NUL in an extension", "2;a\0\r\nab\r\n0\r\n\r\n"],
  ["a bare CR in an extension", "2;a\rb\r\nab\r\n0\r\n\r\n"],
  ["a long extension", `2;${"a".repeat(4097)}\r\nab\r\n0\r\n\r\n`],
  ["long extensions of small chunks", `2;${"a".repeat(900)}\r\nab\r\n`.repeat(5)],
  ["no CR LF after a chunk", "2\r\nab0\r\n\r\n"],
  ["a bare LF after a chunk", "2\r\nab\n0\r\n\r\n"],
  ["junk after a chunk", "2\r\nabc\r\n0\r\n\r\n"],
  ["a surplus CR after a chunk", "2\r\nab\r\r\n0\r\n\r\n"],
  ["a bare LF at the end", "2\r\nab\r\n0\r\n\n"],
  ["a CR without LF at the end", "2\r\nab\r\n0\r\n\rX"],
  ["a trailer with a length", "0\r\nContent-Length: 3\r\n\r\n"],
  ["a trailer with a coding", "0\r\nTransfer-Encoding: chunked\r\n\r\n"],
  ["a trailer with a host", "0\r\nHost: other\r\n\r\n"],
  ["a trailer with credentials", "0\r\nAuthorization: a\r\n\r\n"],
  ["a trailer with a cookie", "0\r\nA: b\r\nCookie: a\r\n\r\n"],
  ["a trailer with XFCC", "0\r\nX-Forwarded-Client-Cert: a\r\n\r\n"],
  ["a trailer with Connection", "0\r\nConnection: close\r\n\r\n"],
  ["a trailer with TE", "0\r\nTE: trailers\r\n\r\n"],
  ["a trailer without a colon", "0\r\nhello\r\n\r\n"],
  ["a folded trailer", "0\r\nA: b\r\n c\r\n\r\n"],
  ["a trailer with a bare LF", "0\r\nA: b\n\r\n"],
  ["a trailer with a NUL", "0\r\nA: b\0\r\n\r\n"],
  ["too many trailers", `0\r\n${"A: b\r\n".repeat(101)}\r\n`],
  ["trailers above the size limit", `0\r\nA: ${"b".repeat(1_000)}\r\n\r\n`],
];

for (const [name, raw] of BODIES) {
  test(`serveHttp1() refuses ${name} in a body`, async () => {
    for (const bytewise of [false, true]) {
      const { client, seen, invalid } = serveRaw({
        limits: LIMITS,
        onComplete: (one) => answer(one),
      });
      await client.send(`${CHUNKED}\r\n${raw}${HIDDEN}`, { bytewise });
      assert.match(client.take(), /^HTTP\/1.1 400 [^]*connection: close\r\n\r\nBad Request$/);
      assert.equal(client.over, "end");
      // Reported once: to the exchange.
      assert.deepEqual(seen.map(({ state }) => state), ["reset protocol"]);
      assert.deepEqual(invalid, []);
    }
  });
  test(`openHttp1Client() ends the connection on ${name}`, async () => {
    for (const bytewise of [false, true]) {
      const { server, client, request, ends } = http1ClientRig({ limits: LIMITS });
      const reply = request();
      await server.send(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${raw}`, {
        bytewise,
      });
      assert.equal(reply.state, "reset protocol");
      assert.deepEqual([client.capacity, server.over], [0, "reset"]);
      assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["peer", "protocol"]]);
    }
  });
}

test("serveHttp1() sends a single response to an invalid body, even if the handler responds in onReset()", async () => {
  const { client, seen } = serveRaw();
  await client.send(`${CHUNKED}\r\n`);
  const { exchange } = seen[0] ?? assert.fail();
  exchange.events = {
    ...exchange.events,
    onReset: () => exchange.respond({ status: 500, length: 0, fields: [] }, true),
  };
  await client.send("x");
  assert.equal(client.take().match(/HTTP/g)?.length, 1);
});

test("serveHttp1() resets a response that has begun when the request's body is invalid", async () => {
  const { client, seen } = serveRaw({
    onRequest: (exchange) => exchange.respond({ status: 200, length: -1, fields: [] }, false),
  });
  await client.send(`${CHUNKED}\r\n2\r\nab\r\n`);
  await client.send("x");
  assert.equal(seen[0]?.state, "reset protocol");
  assert.equal(client.over, "reset");
});

for (const field of ["Connection", "TE", "Upgrade"]) {
  test(`serveHttp1() reads many blanks in ${field} in linear time`, async () => {
    const { client } = serveRaw();
    const since = performance.now();
    await client.send(`${GET}Connection: upgrade\r\n${field}: a${" ".repeat(60_000)}b\r\n\r\n`);
    // A reader that scans the rest again for each blank takes many seconds.
    assert.ok(performance.now() - since < 1_000);
  });
}

const OK = "HTTP/1.1 200 OK\r\n";

/** Ambiguous or invalid responses to a GET. */
const RESPONSES: readonly (readonly [string, string])[] = [
  ["length and chunked", `${OK}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ["two lengths", `${OK}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`],
  ["a length with a sign", `${OK}Content-Length: +3\r\n\r\nabc`],
  ["an unsupported coding", `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
  ["chunked in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc"],
  ["204 that is chunked", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["100 with a body", "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nabc"],
  ["101 without an upgrade request", "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\n\r\n"],
  ["HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"],
  ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"],
  ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
  ["a status below 100", "HTTP/1.1 099 OK\r\n\r\n"],
  ["a status with a sign", "HTTP/1.1 +20 OK\r\n\r\n"],
  ["two spaces before the status", "HTTP/1.1  200 OK\r\n\r\n"],
  ["a bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"],
  ["an empty line before the response", `\r\n${OK}Content-Length: 0\r\n\r\n`],
  ["a NUL in the reason", "HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n"],
  ["a folded line", `${OK}A: b\r\n c\r\nContent-Length: 0\r\n\r\n`],
  ["a space before a colon", `${OK}Content-Length : 0\r\n\r\n`],
  ["too many 1xx", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(33)],
  ["too many fields", `${OK}${"A: b\r\n".repeat(101)}\r\n`],
];

for (const [name, raw] of RESPONSES) {
  test(`openHttp1Client() ends the connection on ${name}`, async () => {
    for (const bytewise of [false, true]) {
      const { server, client, request, ends } = http1ClientRig({ limits: LIMITS });
      const reply = request();
      await server.send(raw, { bytewise });
      assert.equal(reply.state, "reset protocol");
      assert.deepEqual([client.capacity, server.over], [0, "reset"]);
      assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["peer", "protocol"]]);
    }
  });
}

test("openHttp1Client() reports overflow for a response whose head is too large", async () => {
  const { server, request } = http1ClientRig({ limits: LIMITS });
  const reply = request();
  await server.send(`${OK}A: ${"b".repeat(1_000)}\r\n\r\n`);
  assert.deepEqual([reply.state, server.over], ["reset overflow", "reset"]);
});

/** Surplus bytes after a valid response. */
const EXTRA: readonly (readonly [string, string, string])[] = [
  ["a byte after a response", "GET", `${OK}Content-Length: 2\r\n\r\nokX`],
  ["a second response", "GET", `${OK}Content-Length: 0\r\n\r\n${OK}Content-Length: 0\r\n\r\n`],
  ["an empty line after a response", "GET", `${OK}Content-Length: 2\r\n\r\nok\r\n`],
  ["a body after a HEAD", "HEAD", `${OK}Content-Length: 2\r\n\r\nok`],
  ["a body after 304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok"],
  ["a body after 204", "GET", "HTTP/1.1 204 No Content\r\n\r\nok"],
  ["a byte after the last chunk", "GET", `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nX`],
];

for (const [name, method, raw] of EXTRA) {
  test(`openHttp1Client() never reuses a connection after ${name}`, async () => {
    for (const bytewise of [false, true]) {
      const { server, client, request, ends } = http1ClientRig({ limits: LIMITS });
      const reply = request({ method });
      await server.send(raw, { bytewise });
      assert.equal(reply.state, "complete");
      assert.equal(client.capacity, 0);
      assert.notEqual(server.over, "no");
      assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["peer", "protocol"]]);
    }
  });
}

test("openHttp1Client() ends the connection on a response without a request", async () => {
  const asked = http1ClientRig();
  await asked.server.send("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n");
  assert.deepEqual([asked.client.capacity, asked.capacityCalls], [0, 1]);
  assert.deepEqual(asked.ends.map(({ kind }) => kind), ["protocol"]);
});
