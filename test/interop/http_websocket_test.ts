/**
 * WebSockets through pairs, by either protocol on each leg: from the caller, between the sidecars, to the
 * application.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { pattern, type Place } from "../kit/wire/echo.ts";
import { ALLOW_WEB, type FilePair, startFilePair } from "../kit/mesh/file_pair.ts";
import { RawClient, startRawOrigin, statusOf } from "../kit/wire/http_raw.ts";
import {
  CLOSED_BY_ECHO,
  openWebSocket,
  openWebSocketOverHttp2,
  startWebSocketEcho,
  type WebSocketClient,
} from "../kit/wire/http_websocket.ts";
import { deadline } from "../kit/process/process.ts";

const FRAMES = 10_000;
/** As many as a window of the other side may hold. */
const AHEAD = 100;
const DRAIN_MS = 3_000;

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

interface Scene extends AsyncDisposable {
  /** Where a caller asks for a WebSocket. */
  readonly place: Place;
  /** The pair that its sidecar belongs to, and the one whose application echoes. */
  readonly first: FilePair;
  readonly last: FilePair;
}

/** One pair that speaks HTTP/1.1 to an echo. */
async function direct(args: readonly string[] = []): Promise<Scene> {
  await using own = new AsyncDisposableStack();
  const echo = own.use(await startWebSocketEcho());
  const pair = own.use(await startFilePair({ protocol: "http", apps: [echo], args }));
  return sceneOf(own, pair, pair);
}

/**
 * Another pair in front of it speaks HTTP/2 to every server, so that its application is the first one's
 * caller.
 */
async function translated(args: readonly string[] = []): Promise<Scene> {
  await using own = new AsyncDisposableStack();
  const { last } = own.use(await direct(args));
  const apps = [last.upstream];
  return sceneOf(own, own.use(await startFilePair({ protocol: "http2", apps, args })), last);
}

function sceneOf(own: AsyncDisposableStack, first: FilePair, last: FilePair): Scene {
  const stack = own.move();
  const place = first.upstream;
  return { place, first, last, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const WAYS = [
  ["HTTP/1.1 all the way", direct, openWebSocket],
  ["HTTP/2 before HTTP/1.1", direct, openWebSocketOverHttp2],
  ["HTTP/1.1, HTTP/2, HTTP/1.1", translated, openWebSocket],
  ["HTTP/2 before HTTP/2 before HTTP/1.1", translated, openWebSocketOverHttp2],
] as const;

for (const [way, start, open] of WAYS) {
  test(`over ${way}, ${FRAMES} frames of a WebSocket come back in order, and either side closes`, async () => {
    await using on = await start();
    await using client = await open(on.place);
    await exchange(client, FRAMES);
    assert.deepEqual(await client.finish(4_321), { code: 4_321, how: "end" });
    await using other = await open(on.place);
    await exchange(other, 10);
    assert.deepEqual(await other.askToBeClosed(), { code: CLOSED_BY_ECHO, how: "end" });
  });
}

for (const [way, start, open] of [WAYS[0], WAYS[3]]) {
  test(`over ${way}, a WebSocket that is now denied is cut, another is refused with 403`, async () => {
    await using on = await start();
    await using client = await open(on.place);
    await exchange(client, 10);
    await on.last.setIntentions([{ source: "web", action: "deny" }]);
    assert.deepEqual(await client.ended(), { code: undefined, how: "broken" });
    await assert.rejects(open(on.place), /403/);
    await on.last.setIntentions(ALLOW_WEB);
    await using again = await open(on.place);
    await exchange(again, 10);
  });

  test(`over ${way}, a WebSocket goes on while its sidecars drain, to the end of their time`, async () => {
    await using on = await start(["-drain-timeout", `${DRAIN_MS}ms`]);
    await using finishing = await open(on.place);
    await using staying = await open(on.place);
    await exchange(finishing, 10);
    await exchange(staying, 10);
    const sidecars = [on.first.web, ...on.last.dbs];
    for (const sidecar of sidecars) sidecar.kill("SIGTERM");
    const since = performance.now();
    for (const { process } of sidecars) await process.waitFor(/stopping/, { timeoutMs: 10_000 });
    await exchange(finishing, 10);
    assert.deepEqual(await finishing.finish(), { code: 1_000, how: "end" });
    await exchange(staying, 10);
    assert.deepEqual(await staying.ended(), { code: undefined, how: "broken" });
    assert.ok(performance.now() - since >= DRAIN_MS - 100, "it was cut before its time");
    for (const { process } of sidecars) assert.equal((await process.exited).code, 0);
  });
}

test("an upgrade that the application does not make is an ordinary answer", async () => {
  await using origin = await startRawOrigin();
  await using pair = await startFilePair({ protocol: "http", apps: [origin] });
  await using client = await RawClient.open(pair.upstream);
  for (let times = 0; times < 2; times++) {
    client.send(
      "GET /ws HTTP/1.1\r\nHost: db\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    const answer = await deadline(client.response(), 10_000);
    assert.deepEqual([answer && statusOf(answer), answer?.body], [200, "ok"]);
  }
});
