import assert from "node:assert/strict";
import { test } from "node:test";
import { answerOf, messageAt, RawClient, startRawOrigin, statusOf, valuesOf } from "./http_raw.ts";

test("messageAt() finds the end by length, by chunks and without a body", () => {
  const sized = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET";
  assert.equal(messageAt(sized)?.body, "abc");
  assert.equal(messageAt(sized)?.raw, sized.slice(0, -3));
  const chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n";
  assert.equal(messageAt(`${chunked}x: y\r\n`), undefined);
  assert.deepEqual(messageAt(`${chunked}x: y\r\n\r\nGET`), {
    head: "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    body: "abc",
    trailers: "x: y\r\n",
    raw: `${chunked}x: y\r\n\r\n`,
  });
  assert.equal(messageAt(`${chunked}\r\nGET`)?.raw, `${chunked}\r\n`);
  assert.equal(messageAt("GET / HTTP/1.1\r\n\r\nGET")?.raw.length, 18);
});

for (
  const bad of [
    "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "Content-Length: 1\r\ncontent-length: 1\r\n\r\n",
    "Transfer-Encoding: gzip\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n",
    "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
  ]
) {
  test(`messageAt() refuses the ambiguous ${JSON.stringify(bad)}`, () => {
    assert.throws(() => messageAt(`POST / HTTP/1.1\r\n${bad}`));
  });
}

test("a raw client and origin exchange exactly the given bytes", async () => {
  await using origin = await startRawOrigin(({ body }) => answerOf(body, "HTTP/1.1 201 Created"));
  await using client = await RawClient.open(origin);
  const request = "POST /a HTTP/1.1\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\n\xe9!";
  client.send(request + request);
  for (let times = 0; times < 2; times++) {
    const answer = await client.response();
    assert.deepEqual([statusOf(answer), answer.body], [201, "\xe9!"]);
  }
  assert.equal(origin.received[0], request + request);
  assert.deepEqual(valuesOf(origin.requests[1] ?? { head: "" }, "x-a"), ["1", "2"]);
  client.socket.end();
  assert.deepEqual(await client.ended(), { how: "end", rest: "" });
});
