/**
 * Kept connections end at any time, for reasons of their own; a request is lost by that only where no
 * proxy could know whether the server acted on it.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "../kit/wire/echo.ts";
import { startHttp2Server } from "../kit/wire/http2_server.ts";
import { FLAG, FRAME, type RawField, RawHttp2Client } from "../kit/wire/http2_raw.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { openWebSocketOverHttp2 } from "../kit/wire/http_websocket.ts";
import { type PathPair, type PathPairOptions, startPathPair } from "../kit/engine/path_pair.ts";
import { eventually } from "../kit/process/process.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

const dbOf = (pair: PathPair) => ({ host: "127.0.0.1", port: pair.port });

function httpPair(options: PathPairOptions): Promise<PathPair> {
  return startPathPair({
    ...options,
    inbound: { http: httpRules("http"), ...options.inbound },
    upstream: { http: httpRules("http"), ...options.upstream },
  });
}

/** Answers the first request of each connection, and ends the connection when the second one comes. */
function startForgetfulOrigin() {
  const served = new WeakSet<object>();
  return startRawOrigin((_request, socket) => {
    if (served.has(socket)) {
      socket.destroy();
      return undefined;
    }
    served.add(socket);
    return answerOf("ok");
  });
}

test("a request that meets a kept connection's end is sent again where that is safe", async () => {
  await using origin = await startForgetfulOrigin();
  await using pair = await httpPair({ localPort: origin.port });
  await using client = await RawClient.open(dbOf(pair));
  for (let i = 0; i < 5; i++) {
    client.send(`GET /${i} HTTP/1.1\r\nHost: db\r\n\r\n`);
    assert.equal(statusOf(await client.response()), 200, `request ${i}`);
  }
});

test("a refused request whose end was sent separately is not retried", async () => {
  let asked = 0;
  const begun = Promise.withResolvers<void>();
  await using app = await startHttp2Server({
    onRequest(exchange) {
      asked++;
      begun.resolve();
      const end = () => exchange.reset("refused");
      exchange.events = { onData: () => {}, onEnd: end, onDrain: () => {}, onReset: () => {} };
    },
  });
  const http = httpRules("http2");
  const { port } = app;
  await using pair = await httpPair({ localPort: port, inbound: { http }, upstream: { http } });
  await using client = await RawHttp2Client.open(dbOf(pair));
  const head: readonly RawField[] = [
    [":method", "POST"],
    [":scheme", "http"],
    [":authority", "db"],
    [":path", "/"],
  ];
  client.headers(1, head, false);
  await begun.promise;
  client.frame({ type: FRAME.data, flags: FLAG.endStream, stream: 1 });
  assert.equal(await client.ended(1), "headers");
  assert.equal(asked, 1);
});

test("a request that may have been acted on is not sent again", async () => {
  await using origin = await startForgetfulOrigin();
  await using pair = await httpPair({ localPort: origin.port });
  await using client = await RawClient.open(dbOf(pair));
  const post = "POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 1\r\n\r\nx";
  client.send(post);
  assert.equal(statusOf(await client.response()), 200);
  client.send(post);
  const answer = await client.response();
  assert.equal(statusOf(answer), 503);
  assert.match(answer.body, /reset reason: connection termination/);
  assert.equal(origin.requests.length, 2);
});

test("an invalid HTTP response is reported as such, and is not retried", async () => {
  await using origin = await startRawOrigin(({ head }) =>
    answerOf("ok", head.includes("/bad") ? "HTTP/1.1 200 OK\n" : undefined)
  );
  await using pair = await httpPair({ localPort: origin.port });
  await using client = await RawClient.open(dbOf(pair));
  for (const [path, status] of [["/", 200], ["/bad", 502], ["/", 200]] as const) {
    client.send(`GET ${path} HTTP/1.1\r\nHost: db\r\n\r\n`);
    assert.equal(statusOf(await client.response()), status);
  }
  assert.equal(origin.requests.length, 3);
});

test("an application that is down is reported in Envoy's words", async () => {
  const origin = await startRawOrigin();
  await origin[Symbol.asyncDispose]();
  await using pair = await httpPair({ localPort: origin.port });
  const answer = await RawClient.ask(dbOf(pair), "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.equal(statusOf(answer), 503);
  assert.match(answer.body, /reset reason: remote connection failure/);
});

test("more requests than may be open at once are refused, and counted back when they end", async () => {
  await using origin = await startRawOrigin();
  await using pair = await httpPair({ localPort: origin.port, upstream: { maxRequests: 0 } });
  const refused = await RawClient.ask(dbOf(pair), "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  assert.equal(statusOf(refused), 503);
  assert.deepEqual(valuesOf(refused, "x-envoy-overloaded"), ["true"]);
  await using other = await httpPair({ localPort: origin.port, upstream: { maxRequests: 1 } });
  for (let i = 0; i < 3; i++) {
    const answer = await RawClient.ask(dbOf(other), "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    assert.equal(statusOf(answer), 200);
  }
});

test("a request waits where there may be no more connections, and another one does not wait with it", async () => {
  // The origin reads no more on a connection that it holds.
  const ok = answerOf("ok", "HTTP/1.1 200 OK\r\nConnection: close");
  const held: { end(text: string): void }[] = [];
  await using origin = await startRawOrigin((_request, socket) => {
    held.push(socket);
    return undefined;
  });
  await using pair = await httpPair({
    localPort: origin.port,
    upstream: { maxConnections: 1, maxPending: 1 },
  });
  const ask = () => RawClient.ask(dbOf(pair), "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  const first = ask();
  await eventually("the first is under way", () => held.length === 1);
  const others = [ask(), ask()];
  const refused = await Promise.race(others);
  assert.equal(statusOf(refused), 503);
  assert.deepEqual(valuesOf(refused, "x-envoy-overloaded"), ["true"]);
  held[0]?.end(ok);
  assert.equal(statusOf(await first), 200);
  await eventually("the one that waited has its turn", () => held.length === 2);
  held[1]?.end(ok);
  const statuses = (await Promise.all(others)).map((answer) => statusOf(answer));
  assert.deepEqual(statuses.sort(), [200, 503]);
});

test("draining answers requests under way, then closes the connection", async () => {
  const asked = Promise.withResolvers<() => void>();
  await using origin = await startRawOrigin((_request, socket) => {
    asked.resolve(() => socket.write(answerOf("late")));
    return undefined;
  });
  await using pair = await httpPair({ localPort: origin.port });
  await using client = await RawClient.open(dbOf(pair));
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  const answer = await asked.promise;
  const drained = pair.web.path.drain(20_000);
  answer();
  const response = await client.response();
  assert.equal(response.body, "late");
  assert.deepEqual(valuesOf(response, "connection"), ["close"]);
  await client.ended();
  await drained;
});

test("connections of credentials that were replaced carry no new requests", async () => {
  await using origin = await startRawOrigin();
  await using pair = await httpPair({ localPort: origin.port });
  await using client = await RawClient.open(dbOf(pair));
  const ask = async () => {
    client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    return statusOf(await client.response());
  };
  assert.equal(await ask(), 200);
  const opened = () =>
    pair.db.path.view({ connections: true }).connections.map(({ id }) => id).join();
  const before = opened();
  const leaf = pair.ca.issueLeaf({ service: "web" });
  await pair.web.set({
    ...pair.webSnapshot,
    credentials: { ...pair.webSnapshot.credentials, ...leaf, version: 1_000_000 },
  });
  assert.equal(await ask(), 200);
  assert.notEqual(opened(), before);
});

test("a client that does not read holds up its own request only", async () => {
  const big = "x".repeat(8 << 20);
  await using origin = await startRawOrigin(({ head }) =>
    answerOf(head.startsWith("GET /big") ? big : "ok")
  );
  await using pair = await httpPair({ localPort: origin.port });
  await using slow = await RawClient.open(dbOf(pair));
  slow.socket.pause();
  slow.send("GET /big HTTP/1.1\r\nHost: db\r\n\r\n");
  for (let i = 0; i < 20; i++) {
    const answer = await RawClient.ask(dbOf(pair), "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
    assert.equal(answer.body, "ok");
  }
  slow.socket.resume();
  assert.equal((await slow.response()).body.length, big.length);
});

test("an answer that comes before the request is complete ends both", async () => {
  await using origin = await startServer((socket) => {
    socket.once("data", () => socket.write(answerOf("enough", "HTTP/1.1 413 Payload Too Large")));
    socket.on("error", () => {});
  });
  await using pair = await httpPair({ localPort: origin.port });
  for (let i = 0; i < 2; i++) {
    await using client = await RawClient.open(dbOf(pair));
    client.send("POST / HTTP/1.1\r\nHost: db\r\nContent-Length: 10\r\n\r\nabc");
    const answer = await client.response();
    assert.deepEqual([statusOf(answer), answer.body], [413, "enough"]);
    await client.ended();
  }
});

test("an upgrade over HTTP/2 that the application answers otherwise is no tunnel", async () => {
  await using origin = await startRawOrigin(() => answerOf("what?"));
  await using pair = await httpPair({ localPort: origin.port });
  await assert.rejects(openWebSocketOverHttp2(dbOf(pair)), /502/);
});
