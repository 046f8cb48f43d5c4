import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, fieldTexts, serveRaw } from "../../../test/kit/http1.ts";

test("serveHttp1() answers requests on a connection that stays open", async () => {
  const { client, seen, ends } = serveRaw({ onComplete: (exchange) => answer(exchange) });
  for (let round = 1; round <= 3; round++) {
    await client.send(
      "POST /a?b HTTP/1.1\r\nHost: db:80\r\nX-A:  1 \r\nContent-Length: 3\r\n\r\nabc",
    );
    assert.equal(client.take(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    assert.equal(seen.length, round);
    const { exchange, body, state } = seen[round - 1] ?? assert.fail();
    assert.deepEqual([body, state], ["abc", "complete"]);
    const { method, path, authority, length, fields, version } = exchange.request;
    assert.deepEqual([method, path, authority, length, version], [
      "POST",
      "/a?b",
      "db:80",
      3,
      "HTTP/1.1",
    ]);
    assert.deepEqual(fieldTexts(fields), ["x-a: 1"]);
  }
  assert.deepEqual(ends, []);
});
