import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  bytes,
  ExchangeRecorder,
  type Http2Pair,
  http2Pair,
  requestHead,
} from "../../../test/kit/wire/http2_pair.ts";
import type { Stream, StreamEvents } from "../../net/mod.ts";
import type { ClientExchange } from "../exchange.ts";
import { type RequestHead, UNKNOWN_LENGTH } from "../head.ts";

class StreamRecorder implements StreamEvents {
  text = "";
  ends = 0;
  drained = 0;
  closed: boolean | undefined;
  onData(chunk: Uint8Array): void {
    this.text += new TextDecoder().decode(chunk);
  }
  onEnd(): void {
    this.ends++;
  }
  onDrain(): void {
    this.drained++;
  }
  onClose(reset: boolean): void {
    assert.equal(this.closed, undefined);
    this.closed = reset;
  }
}

interface Ends {
  readonly pair: Http2Pair;
  readonly request: RequestHead;
  readonly streams: readonly [Stream, Stream];
  readonly recorded: readonly [StreamRecorder, StreamRecorder];
}

/** Both ends of a tunnel, the client's first. */
async function tunnel(head: Partial<RequestHead>, options = {}): Promise<Ends> {
  const recorded = [new StreamRecorder(), new StreamRecorder()] as const;
  let here: Stream | undefined;
  let there: Stream | undefined;
  const pair = http2Pair({
    ...options,
    onRequest(exchange) {
      there = exchange.tunnel({ status: 200, length: UNKNOWN_LENGTH, fields: [] });
      there.events = recorded[1];
    },
  });
  const answers = new ExchangeRecorder();
  answers.then = () => {
    if (here) return;
    here = exchange.tunnel();
    here.events = recorded[0];
  };
  const exchange: ClientExchange = pair.client.request(requestHead(head), true, answers);
  await settle();
  const request = pair.requests[0]?.exchange.request;
  assert.ok(here && there && request);
  assert.equal(answers.response?.status, head.upgrade ? 101 : 200);
  return { pair, request, streams: [here, there], recorded };
}

const CONNECT = {
  method: "CONNECT",
  scheme: "",
  path: "",
  authority: "db:80",
  length: UNKNOWN_LENGTH,
};
const WEBSOCKET = { upgrade: "websocket", path: "/chat" };

test("an extended CONNECT opens a tunnel, and is an upgrade request on both sides", async () => {
  const { request, streams, recorded, pair } = await tunnel(WEBSOCKET);
  assert.deepEqual([request.method, request.upgrade, request.path], ["GET", "websocket", "/chat"]);
  streams[0].write(bytes("ping"));
  streams[1].give(bytes("pong"));
  await settle();
  assert.deepEqual([recorded[0].text, recorded[1].text], ["pong", "ping"]);
  streams[0].end();
  await settle();
  assert.deepEqual([recorded[1].ends, recorded[1].closed, recorded[0].closed], [
    1,
    undefined,
    undefined,
  ]);
  streams[1].write(bytes("last"));
  streams[1].end();
  await settle();
  assert.deepEqual([recorded[0].text, recorded[0].ends], ["ponglast", 1]);
  assert.deepEqual([recorded[0].closed, recorded[1].closed], [false, false]);
  assert.deepEqual([pair.client.active, pair.server.active], [0, 0]);
});

test("a CONNECT has neither scheme nor path, and its tunnel breaks as a reset", async () => {
  const { request, streams, recorded } = await tunnel(CONNECT);
  assert.deepEqual([request.method, request.authority, request.path], ["CONNECT", "db:80", ""]);
  streams[1].reset();
  await settle();
  assert.deepEqual([recorded[0].closed, recorded[1].closed], [true, false]);
});

test("close() ends both halves after written bytes, without waiting for the peer", async () => {
  const { streams, recorded, pair } = await tunnel(CONNECT);
  streams[0].write(new Uint8Array(100_000));
  streams[0].close();
  streams[1].write(bytes("dropped by the close"));
  for (let i = 0; i < 10; i++) await settle();
  assert.equal(recorded[1].text.length, 100_000);
  assert.deepEqual([recorded[1].ends, recorded[1].closed], [1, false]);
  assert.deepEqual([recorded[0].text, recorded[0].ends, recorded[0].closed], ["", 0, false]);
  assert.deepEqual([pair.client.active, pair.server.active], [0, 0]);
});

test("a tunnel stops a writer that is faster than its reader", async () => {
  const { streams, recorded } = await tunnel(CONNECT, { limits: { bufferedBytes: 50_000 } });
  streams[1].pause();
  let writes = 1;
  while (streams[0].write(new Uint8Array(10_000))) {
    writes++;
    await settle();
  }
  assert.ok(writes < 60, String(writes));
  assert.equal(recorded[0].drained, 0);
  streams[1].resume();
  for (let i = 0; i < 20; i++) await settle();
  assert.deepEqual([recorded[0].drained, recorded[1].text.length], [1, writes * 10_000]);
});

test("bytes before the response to CONNECT wait for the tunnel, and are dropped by a refusal", async () => {
  const pair = http2Pair();
  const recorded = new ExchangeRecorder();
  const exchange = pair.client.request(requestHead(CONNECT), true, recorded);
  exchange.send(bytes("early"));
  await settle();
  const [request] = pair.requests;
  assert.deepEqual([request?.exchange.endsWithHead, request?.recorded.text], [true, ""]);
  request?.exchange.respond({ status: 403, length: 0, fields: [] }, true);
  await settle();
  assert.deepEqual([recorded.response?.status, recorded.ended, recorded.reset], [
    403,
    true,
    undefined,
  ]);
  assert.deepEqual([pair.client.active, pair.server.active], [0, 0]);
  assert.equal(request?.recorded.text, "");
});
