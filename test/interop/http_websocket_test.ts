/**
 * WebSockets through a pair, over both protocols on either leg: the application speaks HTTP/1.1.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { pattern } from "../kit/echo.ts";
import { ALLOW_WEB, startHttpPair } from "../kit/http_pair.ts";
import { RawClient, startRawOrigin, statusOf } from "../kit/http_raw.ts";
import {
  openWebSocket,
  openWebSocketOverHttp2,
  startWebSocketEcho,
  type WebSocketClient,
} from "../kit/http_websocket.ts";
import { deadline } from "../kit/process.ts";

const FRAMES = 10_000;
/** As many as a window of the other side may hold. */
const AHEAD = 100;

async function exchange(client: WebSocketClient, frames: number): Promise<void> {
  const payloads = Array.from({ length: AHEAD }, (_, at) => Buffer.from(pattern(at, 2_000)));
  for (let sent = 0; sent < Math.min(AHEAD, frames); sent++) {
    client.send(payloads[sent] ?? Buffer.of());
  }
  for (let received = 0; received < frames; received++) {
    const wanted = payloads[received % AHEAD];
    const answer = await client.next();
    assert.ok(wanted && answer?.equals(wanted), `frame ${received} differs`);
    if (received + AHEAD < frames) client.send(wanted);
  }
}

for (
  const [over, open] of [
    ["HTTP/1.1", openWebSocket],
    ["HTTP/2", openWebSocketOverHttp2],
  ] as const
) {
  test(`${FRAMES} frames of a WebSocket over ${over} come back in order`, async () => {
    await using echo = await startWebSocketEcho();
    await using pair = await startHttpPair({ protocol: "http", apps: [echo] });
    await using client = await open(pair.upstream);
    await exchange(client, FRAMES);
    await client.finish();
  });
}

test("a WebSocket that is now denied ends, another is refused with 403", async () => {
  await using echo = await startWebSocketEcho();
  await using pair = await startHttpPair({ protocol: "http", apps: [echo] });
  await using client = await openWebSocket(pair.upstream);
  await exchange(client, 10);
  await pair.setIntentions([{ source: "web", action: "deny" }]);
  assert.equal(await client.next(), undefined);
  await assert.rejects(openWebSocket(pair.upstream), /403/);
  await pair.setIntentions(ALLOW_WEB);
  await using again = await openWebSocket(pair.upstream);
  await exchange(again, 10);
});

test("an upgrade that the application does not make is an ordinary answer", async () => {
  await using origin = await startRawOrigin();
  await using pair = await startHttpPair({ protocol: "http", apps: [origin] });
  await using client = await RawClient.open(pair.upstream);
  for (let times = 0; times < 2; times++) {
    client.send(
      "GET /ws HTTP/1.1\r\nHost: db\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    const answer = await deadline(client.response(), 10_000);
    assert.deepEqual([answer && statusOf(answer), answer?.body], [200, "ok"]);
  }
});
