import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answer,
  fieldTexts,
  type Seen,
  type ServeOptions,
  serveRaw,
} from "../../../test/kit/wire/http1.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const LAST = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const GET = "GET / HTTP/1.1\r\nHost: db\r\n";

const answers: ServeOptions = { onComplete: (exchange) => answer(exchange) };

/** The request that a handler got, in one line. */
function shown({ exchange: { request }, body, trailers }: Seen): string {
  const { method, scheme, authority, path, upgrade, length, expectsContinue, fields } = request;
  const parts = [method, `${scheme}://${authority}`, path, String(length)];
  if (upgrade) parts.push(`upgrade=${upgrade}`);
  if (expectsContinue) parts.push("expects");
  parts.push(...fieldTexts(fields));
  if (body) parts.push(`body=${body}`);
  if (trailers) parts.push(`trailers=${fieldTexts(trailers)}`);
  return parts.join(" ");
}

const POST = "POST / HTTP/1.1\r\nHost: db\r\n";
const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n`;

for (
  const [name, raw, want, answered = OK] of [
    ["origin form", `${GET}\r\n`, "GET ://db / 0"],
    ["asterisk form", "OPTIONS * HTTP/1.1\r\nHost: db\r\n\r\n", "OPTIONS ://db * 0"],
    [
      "absolute form, whose authority wins",
      "GET HTTP://a:80/b?c HTTP/1.1\r\nHost: db\r\n\r\n",
      "GET http://a:80 /b?c 0",
    ],
    [
      "absolute form without a path",
      "GET https://[::1]?c HTTP/1.1\r\nHost: db\r\n\r\n",
      "GET https://[::1] /?c 0",
    ],
    [
      "absolute form of OPTIONS",
      "OPTIONS http://a HTTP/1.1\r\nHost: db\r\n\r\n",
      "OPTIONS http://a * 0",
    ],
    ["an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET :// / 0"],
    ["a host that is a port alone", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", "GET ://:80 / 0"],
    ["one empty line before", `\r\n${GET}\r\n`, "GET ://db / 0"],
    ["an unknown method", "PURGE /a HTTP/1.1\r\nHost: db\r\n\r\n", "PURGE ://db /a 0"],
    [
      "names as they were spelled, values without white space",
      `${GET}aB: \t b c \t\r\nab:\r\n\r\n`,
      "GET ://db / 0 ab: b c ab: ",
    ],
    ["octets above ASCII in a value", `${GET}A: \xe4\xff\r\n\r\n`, "GET ://db / 0 a: \xe4\xff"],
    ["a chunked body", `${CHUNKED}\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n`, "POST ://db / -1 body=abc"],
    [
      "CHUNKED in capitals",
      `${POST}TRANSFER-ENCODING: Chunked\r\n\r\n0\r\n\r\n`,
      "POST ://db / -1",
    ],
    [
      "chunks in capitals with zeros and extensions",
      `${CHUNKED}\r\n00A;a="b c"\r\n0123456789\r\nf\r\nabcdefghijklmno\r\n0;x\r\n\r\n`,
      "POST ://db / -1 body=0123456789abcdefghijklmno",
    ],
    [
      "trailers",
      `${CHUNKED}Trailer: x\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n`,
      "POST ://db / -1 trailer: x body=a trailers=x: y,z: ",
    ],
    [
      "without the fields of the connection",
      `${GET}Keep-Alive: 5\r\nProxy-Connection: x\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nA: b\r\n\r\n`,
      "GET ://db / 0 a: b",
    ],
    [
      "TE for trailers only",
      `${GET}TE: gzip, trailers;q=1\r\n\r\n`,
      "GET ://db / 0 te: trailers",
    ],
    ["no other TE", `${GET}TE: gzip\r\nConnection: TE\r\n\r\n`, "GET ://db / 0"],
    [
      "an upgrade",
      `${GET}Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n`,
      "GET ://db / 0 upgrade=websocket",
    ],
    [
      "websocket of several upgrades",
      `${GET}Connection: upgrade\r\nUpgrade: a, websocket\r\n\r\n`,
      "GET ://db / 0 upgrade=websocket",
    ],
    [
      "no upgrade of several others",
      `${GET}Connection: upgrade\r\nUpgrade: a, b\r\n\r\n`,
      "GET ://db / 0",
    ],
    [
      "no upgrade that Connection does not name",
      `${GET}Upgrade: websocket\r\n\r\n`,
      "GET ://db / 0",
    ],
    [
      "an upgrade to h2c as HTTP/1.1",
      `${GET}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n`,
      "GET ://db / 0",
    ],
    [
      "an upgrade with a body as no upgrade",
      `${POST}Connection: upgrade\r\nUpgrade: a\r\nContent-Length: 1\r\n\r\nx`,
      "POST ://db / 1 body=x",
    ],
    [
      "an expectation",
      `${POST}Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx`,
      "POST ://db / 1 expects body=x",
    ],
    ["no expectation without a body", `${GET}Expect: 100-continue\r\n\r\n`, "GET ://db / 0"],
    ["HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "GET :// / 0", LAST],
    [
      "HTTP/1.0 with keep-alive",
      "GET / HTTP/1.0\r\nHost: db\r\nConnection: Keep-Alive\r\n\r\n",
      "GET ://db / 0",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nok",
    ],
    [
      "HTTP/1.0 without upgrades and expectations",
      "POST / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
      "POST :// / 1 body=x",
      LAST,
    ],
    ["the last request", `${GET}Connection: close\r\n\r\n`, "GET ://db / 0", LAST],
    ["the last request among options", `${GET}Connection: a, Close\r\n\r\n`, "GET ://db / 0", LAST],
  ] as const
) {
  test(`serveHttp1() reads ${name}`, async () => {
    for (const bytewise of [false, true]) {
      const { client, seen, invalid } = serveRaw(answers);
      await client.send(raw, { bytewise });
      assert.deepEqual([invalid, seen.map(shown)], [[], [want]]);
      assert.equal(client.take(), answered);
      assert.equal(client.over, answered.includes("close") ? "end" : "no");
    }
  });
}

test("serveHttp1() keeps the spelling of names, known or not", async () => {
  const { client, seen } = serveRaw(answers);
  await client.send(`${GET}ACCEPT: 1\r\nAccept: 2\r\naccept: 3\r\nX-Own: 4\r\nETAG: 5\r\n\r\n`);
  const { fields } = seen[0]?.exchange.request ?? assert.fail();
  const names = fields.filter((_, i) => i % 3 !== 1);
  assert.deepEqual(names, [
    "accept",
    "ACCEPT",
    "accept",
    "Accept",
    "accept",
    "accept",
    "x-own",
    "X-Own",
    "etag",
    "ETAG",
  ]);
});

test("serveHttp1() reads the names of each head, whatever the line had in the one before", async () => {
  const { client, seen, invalid } = serveRaw(answers);
  for (const name of ["Accept", "accept", "Accept-Encoding", "Accept", "Accepted", "Host"]) {
    await client.send(`GET / HTTP/1.1\r\n${name}: a:\r\nHost: db\r\n\r\n`);
  }
  assert.deepEqual(seen.map(({ exchange }) => exchange.request.fields.slice(1).join()), [
    "a:,Accept",
    "a:,accept",
    "a:,Accept-Encoding",
    "a:,Accept",
    "a:,Accepted",
  ]);
  assert.deepEqual(invalid, ["400 more than one host"]);
});

test("serveHttp1() closes without a response for a first line that is not HTTP", async () => {
  const served = serveRaw();
  await served.client.send("INVALID CONNECTION PREFACE\r\n\r\n");
  assert.equal(served.client.received, "");
  assert.equal(served.client.over, "end");
});
