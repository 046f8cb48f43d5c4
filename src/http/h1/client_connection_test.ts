import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  fieldTexts,
  type Http1ClientRig,
  http1ClientRig,
  latin1Bytes,
  type Reply,
  requestHead,
} from "../../../test/kit/wire/http1.ts";
import { SinkStream } from "../../../test/kit/wire/http1_requests.ts";
import type { RequestHead } from "../head.ts";
import { DEFAULT_HTTP_LIMITS } from "../exchange.ts";
import { openHttp1Client } from "./client_connection.ts";

const OK = "HTTP/1.1 200 OK\r\n";

test("openHttp1Client() resets a server that responds without reading the request", async () => {
  const { server, request, ends } = http1ClientRig();
  server.connection.pause();
  const { exchange } = request({ method: "POST", length: 200_000 }, { ends: false });
  exchange.send(new Uint8Array(200_000));
  exchange.end();
  await server.send(`${OK}Connection: close\r\nContent-Length: 0\r\n\r\n`);
  await settle();
  assert.deepEqual([server.over, ends.length], ["reset", 1]);
});

test("openHttp1Client() sends one request after another on a connection", async () => {
  const asked = http1ClientRig();
  const { server, client, request, ends } = asked;
  const capacityTold = () => asked.capacityCalls;
  for (let round = 1; round <= 3; round++) {
    assert.equal(client.capacity, 1);
    const reply = request({ method: "POST", length: 3, fields: ["x-a", "1", "X-A"] }, {
      ends: false,
    });
    assert.equal(client.capacity, 0);
    reply.exchange.send(latin1Bytes("abc"));
    reply.exchange.end();
    await settle();
    assert.equal(
      server.take(),
      "POST / HTTP/1.1\r\nhost: db\r\nX-A: 1\r\ncontent-length: 3\r\n\r\nabc",
    );
    await server.send(`${OK}Content-Length: 2\r\nX-B: 2\r\n\r\nok`);
    assert.deepEqual([reply.status, reply.body, reply.state], [200, "ok", "complete"]);
    assert.deepEqual([reply.fields, capacityTold()], [["x-b: 2"], round]);
  }
  assert.deepEqual(ends, []);
});

for (
  const [name, head, body, want] of [
    [
      "a GET",
      { path: "/a?b", authority: "db:80" },
      undefined,
      "GET /a?b HTTP/1.1\r\nhost: db:80\r\n\r\n",
    ],
    [
      "OPTIONS of the server",
      { method: "OPTIONS", path: "*" },
      undefined,
      "OPTIONS * HTTP/1.1\r\nhost: db\r\n\r\n",
    ],
    ["no authority", { authority: "" }, undefined, "GET / HTTP/1.1\r\nhost: \r\n\r\n"],
    [
      "a POST without a body",
      { method: "POST" },
      undefined,
      "POST / HTTP/1.1\r\nhost: db\r\ncontent-length: 0\r\n\r\n",
    ],
    [
      "a body of unknown length",
      { method: "PUT", length: -1 },
      ["a", "bc"],
      "PUT / HTTP/1.1\r\nhost: db\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\nX: y\r\n\r\n",
    ],
    [
      "a GET with a body",
      { length: 1 },
      ["a"],
      "GET / HTTP/1.1\r\nhost: db\r\ncontent-length: 1\r\n\r\na",
    ],
    [
      "an expectation",
      { method: "PUT", length: 1, expectsContinue: true },
      ["a"],
      "PUT / HTTP/1.1\r\nhost: db\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\na",
    ],
    [
      "octets above ASCII",
      { fields: ["a", "\xe4\t", "A"] },
      undefined,
      "GET / HTTP/1.1\r\nhost: db\r\nA: \xe4\t\r\n\r\n",
    ],
  ] as const
) {
  test(`openHttp1Client() writes ${name}`, async () => {
    const { server, request } = http1ClientRig();
    const { exchange } = request(head as Partial<RequestHead>, { ends: !body });
    for (const chunk of body ?? []) exchange.send(latin1Bytes(chunk));
    if (body) exchange.end(["x", "y", "X"]);
    await settle();
    assert.equal(server.take(), want);
  });
}

for (
  const [name, head, body] of [
    ["a space in its path", { path: "/a b" }, undefined],
    ["a line break in its path", { path: "/\r\nx:" }, undefined],
    ["a line break in its method", { method: "GET\r\n" }, undefined],
    ["a space in its authority", { authority: "a b" }, undefined],
    ["an empty path", { path: "" }, undefined],
    ["a line break in a value", { fields: ["a", "b\nc: d", "A"] }, undefined],
    [
      "characters that latin1 would turn into a line break",
      { fields: ["a", "\u010d\u010a", "A"] },
      undefined,
    ],
    ["no body, but a declared length", { method: "PUT", length: 3 }, undefined],
    ["a body longer than declared", { method: "PUT", length: 3 }, "abcd"],
    ["a body shorter than declared", { method: "PUT", length: 3 }, "ab"],
  ] as const
) {
  test(`openHttp1Client() does not send a request with ${name}`, async () => {
    const { server, client, request, ends } = http1ClientRig();
    const reply = request(head as Partial<RequestHead>, { ends: body === undefined });
    assert.equal(reply.state, "open");
    if (body !== undefined) {
      reply.exchange.send(latin1Bytes(body));
      reply.exchange.end();
    }
    await settle();
    assert.doesNotMatch(server.take(), /\n\r\n./);
    assert.deepEqual([server.over, client.capacity], ["reset", 0]);
    // A break within the owner's own call is not reported.
    assert.equal(reply.state, body === undefined ? "reset internal" : "open");
    assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["us", "reset"]]);
  });
}

/** `STATUS length fields body`, and whether the connection is used again. */
for (
  const [name, method, raw, want, kept] of [
    ["a length", "GET", `${OK}Content-Length: 2\r\nA: b\r\n\r\nok`, "200 2 a: b ok", true],
    ["no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 0", true],
    ["an empty reason", "GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 0", true],
    ["an unknown status", "GET", "HTTP/1.1 799 \xe4\r\nContent-Length: 0\r\n\r\n", "799 0", true],
    [
      "chunks and trailers",
      "GET",
      `${OK}Transfer-Encoding: chunked\r\n\r\n1;a\r\no\r\n1\r\nk\r\n0\r\nX: y\r\n\r\n`,
      "200 -1 ok trailers=x: y",
      true,
    ],
    ["HEAD with a length", "HEAD", `${OK}Content-Length: 5\r\n\r\n`, "200 5", true],
    ["HEAD with chunks", "HEAD", `${OK}Transfer-Encoding: chunked\r\n\r\n`, "200 -1", true],
    ["HEAD with nothing", "HEAD", `${OK}\r\n`, "200 -1", true],
    ["204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "204 0", true],
    [
      "204 with a length of 0",
      "GET",
      "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
      "204 0",
      true,
    ],
    ["304", "GET", "HTTP/1.1 304 Not Modified\r\n\r\n", "304 -1", true],
    [
      "304 with a length",
      "GET",
      "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
      "304 9",
      true,
    ],
    [
      "a last response",
      "GET",
      `${OK}Connection: close\r\nContent-Length: 2\r\n\r\nok`,
      "200 2 ok",
      false,
    ],
    ["HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 2 ok", false],
    [
      "HTTP/1.0 with keep-alive",
      "GET",
      "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
      "200 2 ok",
      true,
    ],
    ["a body until the end", "GET", `${OK}\r\nok(end)`, "200 -1 ok", false],
    ["no body until the end", "GET", `${OK}\r\n(end)`, "200 -1", false],
    [
      "without the fields of the connection",
      "GET",
      `${OK}Connection: keep-alive, X-Hop\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nX-Hop: 1\r\nA: b\r\nContent-Length: 0\r\n\r\n`,
      "200 0 a: b",
      true,
    ],
    [
      "1xx before the response",
      "GET",
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\n${OK}Content-Length: 0\r\n\r\n`,
      "100,103 link: a,200 0",
      true,
    ],
  ] as const
) {
  test(`openHttp1Client() reads ${name}`, async () => {
    for (const bytewise of [false, true]) {
      const { server, client, request, ends } = http1ClientRig();
      const reply = request({ method });
      await server.send(raw.replace("(end)", ""), { bytewise });
      if (raw.endsWith("(end)")) {
        assert.equal(reply.state, "open");
        server.connection.end();
        await settle();
      }
      const { informational, status, length, fields, body, trailers, state } = reply;
      const parts: unknown[] = [[...informational, status].join(","), length, ...fields];
      if (body) parts.push(body);
      if (trailers) parts.push(`trailers=${fieldTexts(trailers)}`);
      assert.equal(parts.join(" "), want);
      assert.deepEqual([state, client.capacity, client.active], ["complete", kept ? 1 : 0, 0]);
      assert.deepEqual([server.over === "no", ends.length], [kept, kept ? 0 : 1]);
    }
  });
}

for (
  const [value, keptMs] of [
    ["timeout=5", 5_000],
    ["max=100, Timeout=75", 75_000],
    ["timeout=0", Infinity],
    ["timeout=-1", Infinity],
    ["timeout=5x", Infinity],
    ["xtimeout=5", Infinity],
    ["5", Infinity],
  ] as const
) {
  test(`openHttp1Client() takes ${keptMs} ms from "Keep-Alive: ${value}"`, async () => {
    const { server, client, request } = http1ClientRig();
    request();
    await server.send(`${OK}Keep-Alive: ${value}\r\nContent-Length: 0\r\n\r\n`);
    assert.equal(client.keptMs, keptMs);
    // Only the last response counts.
    request();
    await server.send(`${OK}Content-Length: 0\r\n\r\n`);
    assert.equal(client.keptMs, Infinity);
  });
}

/** Ends of a connection with an open request. */
for (
  const [name, before, leave, state, by] of [
    ["before a response", "", "end", "reset connection", "peer"],
    ["within a head", OK, "end", "reset connection", "peer"],
    [
      "within a body of known length",
      `${OK}Content-Length: 5\r\n\r\nab`,
      "end",
      "reset connection",
      "peer",
    ],
    [
      "within chunks",
      `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n`,
      "end",
      "reset connection",
      "peer",
    ],
    [
      "by a reset within a body until the end",
      `${OK}\r\nab`,
      "reset",
      "reset connection",
      "network",
    ],
  ] as const
) {
  test(`openHttp1Client() reports a server that leaves ${name}`, async () => {
    const { server, client, request, ends } = http1ClientRig();
    const reply = request();
    await server.send(before);
    if (leave === "end") server.connection.close();
    else server.connection.reset();
    await settle();
    assert.deepEqual([reply.state, client.capacity, client.active], [state, 0, 0]);
    assert.deepEqual(ends.map((end) => end.by), [by]);
  });
}

test("openHttp1Client() calls onCapacity() when an idle connection is lost", async () => {
  const lose: readonly ((asked: Http1ClientRig) => void)[] = [
    ({ server }) => server.connection.end(),
    ({ server }) => server.connection.reset(),
    ({ client }) => client.drain(),
    ({ client }) => client.reset("old"),
  ];
  for (const how of lose) {
    const asked = http1ClientRig();
    how(asked);
    await settle();
    assert.deepEqual([asked.client.capacity, asked.capacityCalls, asked.ends.length], [0, 1, 1]);
    assert.equal(asked.stream.closed, true);
  }
});

test("ClientConnection.drain() waits for the response", async () => {
  const { server, client, request, ends } = http1ClientRig();
  const reply = request();
  client.drain();
  await server.send(`${OK}Content-Length: 2\r\n\r\nok`);
  assert.deepEqual([reply.state, client.capacity, server.over], ["complete", 0, "end"]);
  assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["us", "closed"]]);
});

test("ClientConnection.reset() is reported to the exchange, ClientExchange.reset() is not", async () => {
  const owner = http1ClientRig();
  const reported = owner.request();
  owner.client.reset("rotated");
  await settle();
  assert.deepEqual([reported.state, owner.server.over], ["reset connection", "reset"]);
  assert.deepEqual(owner.ends, [{ by: "us", kind: "reset", detail: "rotated" }]);
  const own = http1ClientRig();
  const unreported = own.request();
  unreported.exchange.reset("timed_out");
  await own.server.send(`${OK}Content-Length: 0\r\n\r\n`);
  assert.deepEqual([unreported.state, own.server.over, own.client.capacity], ["open", "reset", 0]);
});

test("openHttp1Client() never reuses a connection whose request was not sent completely", async () => {
  const { server, client, request, ends } = http1ClientRig();
  const reply = request({ method: "POST", length: 10 }, { ends: false });
  reply.exchange.send(latin1Bytes("abc"));
  await server.send(`${OK}Content-Length: 2\r\n\r\nok`);
  assert.deepEqual([reply.state, client.capacity], ["complete", 0]);
  assert.deepEqual([server.over, ends.length], ["reset", 1]);
  assert.equal(reply.exchange.send(latin1Bytes("def")), true);
});

test("openHttp1Client() stops the server while its exchange is paused, and the sender while the server does not read", async () => {
  const { server, client, request, stream } = http1ClientRig({ capacityBytes: 40 });
  const reply: Reply = request({ method: "POST", length: 50 }, { ends: false });
  server.connection.pause();
  assert.equal(reply.exchange.send(latin1Bytes("a".repeat(50))), false);
  reply.exchange.end();
  server.connection.resume();
  await settle();
  assert.equal(reply.drains, 1);
  reply.exchange.pause();
  assert.equal(stream.paused, true);
  await server.send(`${OK}Content-Length: 2\r\n\r\nok`);
  assert.equal(reply.status, 0);
  reply.exchange.resume();
  await settle();
  assert.deepEqual([reply.body, reply.state, client.capacity], ["ok", "complete", 1]);
});

test("openHttp1Client() delays onEnd() and reuse after a response whose bytes paused it", async () => {
  for (const extra of ["", "X"]) {
    const { server, client, request } = http1ClientRig();
    const reply = request();
    const { events } = reply.exchange;
    const { onData } = events;
    events.onData = (chunk) => {
      onData(chunk);
      reply.exchange.pause();
    };
    await server.send(`${OK}Content-Length: 2\r\n\r\nok${extra}`);
    assert.deepEqual([reply.body, reply.state, client.capacity], ["ok", "open", 0]);
    reply.exchange.resume();
    await settle();
    assert.deepEqual([reply.state, client.capacity], ["complete", extra ? 0 : 1]);
  }
});

test("openHttp1Client() limits bytes that an engine delivers while paused", () => {
  const stream = new SinkStream();
  const reasons: string[] = [];
  const client = openHttp1Client(stream, {
    limits: { ...DEFAULT_HTTP_LIMITS, bufferedBytes: 100 },
    events: { onCapacity() {}, onClose() {} },
  });
  const exchange = client.request(requestHead(), true, {
    onInformational() {},
    onResponse: () => exchange.pause(),
    onData() {},
    onEnd() {},
    onDrain() {},
    onReset: (reason) => void reasons.push(reason),
  });
  stream.events.onData(latin1Bytes(`${OK}\r\n`));
  for (let i = 0; i < 10; i++) stream.events.onData(latin1Bytes("0123456789"));
  assert.deepEqual([reasons, stream.over], [[], false]);
  stream.events.onData(latin1Bytes("0"));
  assert.deepEqual([reasons, stream.over], [["overflow"], true]);
});

test("openHttp1Client() takes a new request within onEnd()", async () => {
  const { server, client, request } = http1ClientRig();
  const reply = request();
  let second: Reply | undefined;
  reply.exchange.events.onEnd = () => void (second = request({ path: "/2" }));
  await server.send(`${OK}Content-Length: 2\r\n\r\nok`);
  assert.match(server.take(), /GET \/2 HTTP/);
  assert.equal(client.capacity, 0);
  await server.send(`${OK}Content-Length: 0\r\n\r\n`);
  assert.deepEqual([second?.state, client.capacity], ["complete", 1]);
});

test("openHttp1Client() throws for a second open request", () => {
  const { request } = http1ClientRig();
  request();
  assert.throws(() => request(), /busy/);
});
