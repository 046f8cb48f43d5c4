import assert from "node:assert/strict";
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { startHttp2Server } from "../kit/wire/http2_server.ts";
import { answerOf, RawClient, startRawOrigin, statusOf, valuesOf } from "../kit/wire/http_raw.ts";
import { type PathPair, startPathPair } from "../kit/engine/path_pair.ts";
import { httpRules } from "../kit/engine/snapshots.ts";

async function asksThrough(pair: PathPair): Promise<void> {
  await using client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  for (const path of ["/one", "/two", "/three"]) {
    client.send(`POST ${path} HTTP/1.1\r\nHost: db\r\nContent-Length: 3\r\n\r\nabc`);
    const answer = await client.response();
    assert.equal(statusOf(answer), 200);
    assert.equal(answer.body, `you asked ${path} with abc`);
  }
}

test("requests of HTTP/1.1 come through HTTP/1.1", async () => {
  await using origin = await startRawOrigin(({ head, body }) =>
    answerOf(`you asked ${head.split(" ")[1]} with ${body}`)
  );
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: httpRules("http") },
    upstream: { http: httpRules("http") },
  });
  await asksThrough(pair);
});

test("requests of HTTP/1.1 come through HTTP/2 to an application that speaks it", async () => {
  const origin = createServer();
  origin.on("stream", (stream: ServerHttp2Stream, headers) => {
    let body = "";
    stream.on("data", (chunk: Uint8Array) => body += new TextDecoder().decode(chunk));
    stream.on("end", () => {
      stream.respond({ ":status": 200 });
      stream.end(`you asked ${headers[":path"]} with ${body}`);
    });
  });
  await new Promise<void>((resolve) => origin.listen(0, "127.0.0.1", resolve));
  await using pair = await startPathPair({
    localPort: (origin.address() as AddressInfo).port,
    inbound: { http: httpRules("http2") },
    upstream: { http: httpRules("http2") },
  });
  await asksThrough(pair);
  origin.close();
});

for (const [protocol, connections] of [["http", 3], ["http2", 1]] as const) {
  test(`requests at a time open as many connections as ${protocol} needs`, async () => {
    const waiting: (() => void)[] = [];
    // The origin answers once all requests are there.
    const arrived = (answer: () => void) => {
      if (waiting.push(answer) === 3) { for (const each of waiting) each(); }
    };
    await using http1 = await startRawOrigin((_request, socket) => {
      arrived(() => socket.write(answerOf("ok")));
      return undefined;
    });
    await using http2 = await startHttp2Server({
      onRequest: (exchange) =>
        arrived(() => exchange.respond({ status: 200, length: 0, fields: [] }, true)),
    });
    const http = httpRules(protocol);
    const localPort = protocol === "http" ? http1.port : http2.port;
    await using pair = await startPathPair({ localPort, inbound: { http }, upstream: { http } });
    const place = { host: "127.0.0.1", port: pair.port };
    const answers = await Promise.all(
      ["/1", "/2", "/3"].map((path) =>
        RawClient.ask(place, `GET ${path} HTTP/1.1\r\nHost: db\r\n\r\n`)
      ),
    );
    assert.deepEqual(answers.map(statusOf), [200, 200, 200]);
    const opened = protocol === "http" ? http1.received.length : http2.connections.size;
    assert.equal(opened, connections);
  });
}

test("an application gets its caller's timeout, and no Expect header", async () => {
  await using origin = await startRawOrigin();
  await using pair = await startPathPair({
    localPort: origin.port,
    inbound: { http: { ...httpRules("http"), requestTimeoutMs: 20_000 } },
    upstream: { http: { ...httpRules("http"), requestTimeoutMs: 30_000 } },
  });
  await using client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
  client.send("POST / HTTP/1.1\r\nHost: db\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  assert.equal(statusOf(await client.response()), 100);
  client.send("abc");
  assert.equal(statusOf(await client.response()), 200);
  const [request] = origin.requests;
  assert.ok(request);
  assert.equal(request.body, "abc");
  assert.deepEqual(valuesOf(request, "x-envoy-expected-rq-timeout-ms"), ["20000"]);
  assert.deepEqual(valuesOf(request, "expect"), []);
});

for (const side of ["inbound", "upstream"] as const) {
  test(`a head that is longer than the ${side} listener takes does not reach the application`, async () => {
    let asked = 0;
    await using origin = await startRawOrigin(() => {
      asked++;
      return answerOf("hello");
    });
    const small = { ...httpRules("http"), headBytes: 1_024 };
    await using pair = await startPathPair({
      localPort: origin.port,
      inbound: { http: side === "inbound" ? small : httpRules("http") },
      upstream: { http: side === "upstream" ? small : httpRules("http") },
    });
    await using client = await RawClient.open({ host: "127.0.0.1", port: pair.port });
    client.send(`GET / HTTP/1.1\r\nHost: db\r\nx-long: ${"a".repeat(2_000)}\r\n\r\n`);
    assert.equal(statusOf(await client.response()), 431);
    assert.equal(asked, 0);
  });
}
