import assert from "node:assert/strict";
import { test } from "node:test";
import { pattern } from "./echo.ts";
import { RawClient, statusOf } from "./http_raw.ts";
import { CLOSED_BY_ECHO, openWebSocket, startWebSocketEcho } from "./http_websocket.ts";

test("a WebSocket echo sends back every frame, and its end", async () => {
  await using echo = await startWebSocketEcho();
  await using socket = await openWebSocket(echo);
  for (let i = 0; i < 100; i++) {
    const payload = pattern(i, 1000);
    socket.send(payload);
    assert.deepEqual(await socket.next(), Buffer.from(payload));
  }
  assert.deepEqual(await socket.finish(), { code: 1_000, how: "end" });
  await using other = await openWebSocket(echo);
  assert.deepEqual(await other.askToBeClosed(), { code: CLOSED_BY_ECHO, how: "end" });
});

test("a WebSocket echo is no HTTP server", async () => {
  await using echo = await startWebSocketEcho();
  const answer = await RawClient.ask(echo, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(statusOf(answer), 400);
});
