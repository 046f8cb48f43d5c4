import assert from "node:assert/strict";
import { test } from "node:test";
import { askRaw, latin1Bytes } from "../../../test/kit/http1.ts";
import { settle } from "../../../test/kit/clock.ts";

test("askHttp1() asks again and again on one connection", async () => {
  const { server, client, ask, ends } = askRaw();
  for (let round = 1; round <= 3; round++) {
    assert.equal(client.capacity, 1);
    const reply = ask({ method: "POST", length: 3, fields: ["x-a", "1", "X-A"] }, { ends: false });
    assert.equal(client.capacity, 0);
    reply.exchange.send(latin1Bytes("abc"));
    reply.exchange.end();
    await settle();
    assert.equal(
      server.take(),
      "POST / HTTP/1.1\r\nhost: db\r\nX-A: 1\r\ncontent-length: 3\r\n\r\nabc",
    );
    await server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-B: 2\r\n\r\nok");
    assert.deepEqual([reply.status, reply.body, reply.state], [200, "ok", "complete"]);
    assert.deepEqual(reply.fields, ["x-b: 2"]);
  }
  assert.deepEqual(ends, []);
});
