import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import { latin1Bytes, serveRaw } from "../../../test/kit/wire/http1.ts";

const GET = "GET / HTTP/1.1\r\nHost: db\r\n";

interface SentResponse {
  readonly status?: number;
  readonly length: number;
  readonly ends?: boolean;
  readonly body?: readonly string[];
  readonly trailers?: readonly string[];
}

/** Responses of a handler, and the bytes on the wire. */
for (
  const [name, request, respond, want] of [
    [
      "a body of known length",
      `${GET}\r\n`,
      { length: 2, body: ["o", "k"] },
      "200 OK\r\nA: b\r\ncontent-length: 2\r\n\r\nok",
    ],
    [
      "a body of unknown length in chunks",
      `${GET}\r\n`,
      { length: -1, body: ["o", "", "k".repeat(17)] },
      `200 OK\r\nA: b\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n11\r\n${
        "k".repeat(17)
      }\r\n0\r\n\r\n`,
    ],
    [
      "trailers after chunks",
      `${GET}\r\n`,
      { length: -1, body: ["o"], trailers: ["x", "y", "X"] },
      "200 OK\r\nA: b\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n0\r\nX: y\r\n\r\n",
    ],
    [
      "no trailers without chunks",
      `${GET}\r\n`,
      { length: 1, body: ["o"], trailers: ["x", "y", "X"] },
      "200 OK\r\nA: b\r\ncontent-length: 1\r\n\r\no",
    ],
    [
      "a body of unknown length to HTTP/1.0 until the end",
      "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      { length: -1, body: ["o", "k"], trailers: ["x", "y", "X"] },
      "200 OK\r\nA: b\r\nconnection: close\r\n\r\nok(end)",
    ],
    [
      "no body",
      `${GET}\r\n`,
      { length: 0, ends: true },
      "200 OK\r\nA: b\r\ncontent-length: 0\r\n\r\n",
    ],
    [
      "no body of unknown length",
      `${GET}\r\n`,
      { length: -1, ends: true },
      "200 OK\r\nA: b\r\ncontent-length: 0\r\n\r\n",
    ],
    [
      "an empty body of unknown length",
      `${GET}\r\n`,
      { length: -1, body: [] },
      "200 OK\r\nA: b\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    [
      "HEAD with its length",
      "HEAD / HTTP/1.1\r\nHost: db\r\n\r\n",
      { length: 5, ends: true },
      "200 OK\r\nA: b\r\ncontent-length: 5\r\n\r\n",
    ],
    [
      "HEAD without the handler's body",
      "HEAD / HTTP/1.1\r\nHost: db\r\n\r\n",
      { length: -1, body: ["ok"] },
      "200 OK\r\nA: b\r\n\r\n",
    ],
    [
      "204 without a length",
      `${GET}\r\n`,
      { status: 204, length: 0, ends: true },
      "204 No Content\r\nA: b\r\n\r\n",
    ],
    [
      "304 with its declared length",
      `${GET}\r\n`,
      { status: 304, length: 7, ends: true },
      "304 Not Modified\r\nA: b\r\ncontent-length: 7\r\n\r\n",
    ],
    [
      "a status without a reason",
      `${GET}\r\n`,
      { status: 299, length: 0, ends: true },
      "299 \r\nA: b\r\ncontent-length: 0\r\n\r\n",
    ],
  ] as const
) {
  test(`serveHttp1() writes ${name}`, async () => {
    const { client, seen } = serveRaw();
    await client.send(request);
    const { exchange } = seen[0] ?? assert.fail();
    const { status = 200, length, ends = false, body = [], trailers }: SentResponse = respond;
    exchange.respond({ status, length, fields: ["a", "b", "A"] }, ends);
    for (const chunk of body) exchange.send(latin1Bytes(chunk));
    if (!ends) exchange.end(trailers && [...trailers]);
    await settle();
    assert.equal(client.take() + (client.over === "end" ? "(end)" : ""), `HTTP/1.1 ${want}`);
  });
}

/** Responses that differ from their head, or cannot be written. */
for (
  const [name, status, length, ends, body, fields] of [
    ["longer than declared", 200, 2, false, "abc", []],
    ["shorter than declared", 200, 4, false, "abc", []],
    ["without its declared body", 200, 4, true, "", []],
    ["with a line break in a value", 200, 0, true, "", ["a", "b\r\nset-cookie: c", "A"]],
    ["with a line break in a name", 200, 0, true, "", ["a", "b", "A\n"]],
    ["with characters that latin1 would turn into a line break", 200, 0, true, "", [
      "a",
      "b\u010d\u010ac: d",
      "A",
    ]],
    ["with status 101", 101, 0, true, "", []],
  ] as const
) {
  test(`serveHttp1() resets the connection on a response ${name}`, async () => {
    const { client, seen, ends: closes } = serveRaw();
    await client.send(`${GET}\r\n`);
    const { exchange } = seen[0] ?? assert.fail();
    exchange.respond({ status, length, fields: [...fields] }, ends);
    if (!ends) {
      exchange.send(latin1Bytes(body));
      exchange.end();
    }
    await settle();
    assert.equal(client.over, "reset");
    assert.doesNotMatch(client.take(), /\r\n\r\n.*abc|c: d|cookie/);
    assert.deepEqual(closes.map(({ by, kind }) => [by, kind]), [["us", "reset"]]);
  });
}

test("1xx other than 100 are dropped while the client does not read", async () => {
  const { client, seen } = serveRaw({ capacityBytes: 1_000 });
  await client.send(
    "PUT / HTTP/1.1\r\nHost: db\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
  );
  await settle();
  const [{ exchange } = assert.fail("no request")] = seen;
  client.connection.pause();
  const fields = ["link", "a".repeat(400), "Link"];
  for (let count = 0; count < 30; count++) {
    exchange.inform({ status: 103, length: 0, fields });
    await settle();
  }
  exchange.inform({ status: 100, length: 0, fields: [] });
  client.connection.resume();
  await settle();
  const statuses = [...client.received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual([statuses.at(0), statuses.at(-1)], ["103", "100"]);
  assert.ok(statuses.length < 6, String(statuses.length));
});
