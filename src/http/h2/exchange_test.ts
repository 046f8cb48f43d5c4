import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  bytes,
  ExchangeRecorder,
  http2Pair,
  requestHead,
} from "../../../test/kit/wire/http2_pair.ts";
import { addField, fieldOf, type Fields, UNKNOWN_LENGTH } from "../head.ts";

test("a request and its response arrive with heads, bodies and trailers", async () => {
  const pair = http2Pair({
    onRequest(exchange, recorded) {
      recorded.then = () => {
        if (!recorded.ended) return;
        const fields: Fields = [];
        addField(fields, "content-type", "application/grpc");
        exchange.inform({ status: 103, length: UNKNOWN_LENGTH, fields: ["link", "</a>", "link"] });
        exchange.respond({ status: 200, length: UNKNOWN_LENGTH, fields }, false);
        exchange.send(bytes(`got ${recorded.text}`));
        exchange.end(["grpc-status", "0", "grpc-status"]);
      };
    },
  });
  const recorded = new ExchangeRecorder();
  const fields: Fields = [];
  addField(fields, "te", "trailers");
  addField(fields, "cookie", "a=1; b=2");
  const exchange = pair.client.request(
    requestHead({ method: "POST", path: "/items?id=1", length: UNKNOWN_LENGTH, fields }),
    false,
    recorded,
  );
  exchange.send(bytes("hello "));
  exchange.send(bytes("world"));
  exchange.end();
  await settle();
  const [request] = pair.requests;
  assert.deepEqual(request?.exchange.request, {
    ...requestHead({ method: "POST", path: "/items?id=1", length: UNKNOWN_LENGTH, fields }),
  });
  assert.equal(request?.recorded.text, "hello world");
  assert.deepEqual(recorded.informational.map(({ status }) => status), [103]);
  assert.equal(recorded.response?.status, 200);
  assert.equal(fieldOf(recorded.response?.fields ?? [], "content-type"), "application/grpc");
  assert.equal(recorded.text, "got hello world");
  assert.deepEqual(recorded.trailers, ["grpc-status", "0", "grpc-status"]);
  assert.deepEqual([pair.client.active, pair.server.active], [0, 0]);
  assert.deepEqual([recorded.reset, request?.recorded.reset], [undefined, undefined]);
});

test("a paused exchange holds no more than its window, and does not stop others", async () => {
  const streamWindowBytes = 100_000;
  const pair = http2Pair({
    limits: { streamWindowBytes, connectionWindowBytes: 150_000 },
    onRequest(exchange) {
      if (exchange.request.path === "/slow") exchange.pause();
    },
  });
  const slow = pair.client.request(
    requestHead({ path: "/slow", length: UNKNOWN_LENGTH }),
    false,
    new ExchangeRecorder(),
  );
  await settle();
  let taken = 0;
  for (let i = 0; i < 100; i++) {
    if (!slow.send(new Uint8Array(10_000))) break;
    taken += 10_000;
    await settle();
  }
  // The window, and the client's own buffer for the stream.
  assert.ok(taken >= 300_000 && taken <= 400_000, String(taken));
  const quick = pair.client.request(
    requestHead({ length: UNKNOWN_LENGTH }),
    false,
    new ExchangeRecorder(),
  );
  for (let i = 0; i < 50; i++) {
    quick.send(new Uint8Array(10_000));
    await settle();
  }
  assert.equal(pair.requests[1]?.recorded.bytes, 500_000);
  const recorded = pair.requests[0]?.recorded;
  assert.equal(recorded?.bytes, 0);
  pair.requests[0]?.exchange.resume();
  slow.end();
  for (let i = 0; i < 50; i++) await settle();
  assert.equal(recorded?.bytes, taken + 10_000);
  assert.equal(recorded?.ended, true);
});
