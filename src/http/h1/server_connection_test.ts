import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  answer,
  fieldTexts,
  latin1Bytes,
  type RawEnd,
  type ServeOptions,
  serveRaw,
} from "../../../test/kit/wire/http1.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const LAST = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const GET = "GET / HTTP/1.1\r\nHost: db\r\n";

const POST = "POST / HTTP/1.1\r\nHost: db\r\n";
const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n`;

const answers: ServeOptions = { onComplete: (exchange) => answer(exchange) };

test("serveHttp1() answers requests on a connection that stays open", async () => {
  const { client, seen, ends } = serveRaw(answers);
  for (let round = 1; round <= 3; round++) {
    await client.send(
      "POST /a?b HTTP/1.1\r\nHost: db:80\r\nX-A:  1 \r\nContent-Length: 3\r\n\r\nabc",
    );
    assert.equal(client.take(), OK);
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

test("serveHttp1() joins small chunks of one read, and delivers a large body as it comes", async () => {
  const { client, seen } = serveRaw(answers);
  await client.send(`${CHUNKED}\r\n${"1\r\na\r\n".repeat(1_000)}0\r\n\r\n`);
  assert.deepEqual([seen[0]?.chunks, seen[0]?.body], [1, "a".repeat(1_000)]);
  await client.send(`${POST}Content-Length: 6\r\n\r\nab`);
  assert.deepEqual([seen[1]?.body, seen[1]?.state], ["ab", "open"]);
  await client.send("cdef");
  assert.deepEqual([seen[1]?.body, seen[1]?.state], ["abcdef", "complete"]);
});

test("serveHttp1() serves pipelined requests in order, and reads none before its turn", async () => {
  for (const bytewise of [false, true]) {
    const { client, seen, stream } = serveRaw();
    const one = `${POST}Content-Length: 1\r\n\r\n1`;
    await client.send(
      `${one}GET /2 HTTP/1.1\r\nHost: db\r\n\r\n${CHUNKED}\r\n1\r\n3\r\n0\r\n\r\n`,
      {
        bytewise,
      },
    );
    for (let turn = 1; turn <= 3; turn++) {
      assert.deepEqual([seen.length, stream.paused], [turn, turn < 3]);
      answer(seen[turn - 1]?.exchange ?? assert.fail(), `${turn}`);
      await settle();
      assert.equal(client.take(), `HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n${turn}`);
    }
    assert.deepEqual(seen.map(({ body }) => body), ["1", "", "3"]);
    assert.equal(stream.paused, false);
  }
});

test("serveHttp1() answers a pipelined batch at once if the handler does", async () => {
  const { client, seen, stream } = serveRaw(answers);
  await client.send(`${GET}\r\n`.repeat(1_000));
  assert.deepEqual([seen.length, stream.paused], [1_000, false]);
  assert.equal(client.take(), OK.repeat(1_000));
});

test("serveHttp1() holds back requests of a client that does not read its responses", async () => {
  const { client, seen } = serveRaw({ ...answers, capacityBytes: 100 });
  client.connection.pause();
  await client.send(`${GET}\r\n`.repeat(100));
  assert.ok(seen.length < 10, `${seen.length} were answered`);
  client.connection.resume();
  await settle();
  assert.deepEqual([seen.length, client.take()], [100, OK.repeat(100)]);
});

test("serveHttp1() stops the client while its exchange is paused, and the handler while the client does not read", async () => {
  const { client, seen, stream } = serveRaw({
    capacityBytes: 10,
    onRequest: (exchange) => exchange.pause(),
  });
  await client.send(`${POST}Content-Length: 3\r\n\r\nabc`);
  const one = seen[0] ?? assert.fail();
  assert.deepEqual([one.body, one.state, stream.paused], ["", "open", true]);
  one.exchange.resume();
  assert.equal(one.body, "");
  await settle();
  assert.deepEqual([one.body, one.state, stream.paused], ["abc", "complete", false]);
  client.connection.pause();
  one.exchange.respond({ status: 200, length: -1, fields: [] }, false);
  assert.equal(one.exchange.send(latin1Bytes("a")), false);
  client.connection.resume();
  await settle();
  assert.equal(one.drains, 1);
  one.exchange.end();
  await settle();
  assert.match(client.take(), /\r\n\r\n1\r\na\r\n0\r\n\r\n$/);
});

test("serveHttp1() delays onEnd() of a request whose last bytes paused it", async () => {
  const { client, seen } = serveRaw();
  await client.send(`${POST}Content-Length: 2\r\n\r\na`);
  const one = seen[0] ?? assert.fail();
  const { events } = one.exchange;
  one.exchange.events = {
    ...events,
    onData(chunk) {
      events.onData(chunk);
      one.exchange.pause();
    },
  };
  await client.send(`b${GET}\r\n`);
  assert.deepEqual([one.body, one.state, seen.length], ["ab", "open", 1]);
  one.exchange.resume();
  await settle();
  assert.deepEqual([one.state, seen.length], ["complete", 1]);
  answer(one.exchange);
  await settle();
  assert.equal(seen.length, 2);
});

test("serveHttp1() sends 1xx to HTTP/1.1 clients only", async () => {
  const informs: ServeOptions = {
    onComplete(exchange) {
      exchange.inform({ status: 103, length: 0, fields: ["link", "a", "Link"] });
      exchange.inform({ status: 100, length: 0, fields: [] });
      exchange.respond({ status: 200, length: 2, fields: [] }, false);
      exchange.inform({ status: 100, length: 0, fields: [] });
      exchange.send(latin1Bytes("ok"));
      exchange.end();
    },
  };
  const { client } = serveRaw(informs);
  await client.send(`${GET}\r\n`);
  assert.equal(
    client.take(),
    `HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${OK}`,
  );
  const old = serveRaw(informs);
  await old.client.send("GET / HTTP/1.0\r\n\r\n");
  assert.equal(old.client.take(), LAST);
});

test("serveHttp1() sends a response that begins before the request ends", async () => {
  const { client, seen } = serveRaw({
    onRequest: (exchange) => exchange.respond({ status: 200, length: -1, fields: [] }, false),
    onComplete: (exchange) => exchange.end(),
  });
  await client.send(`${CHUNKED}\r\n1\r\na\r\n`);
  assert.match(client.take(), /chunked\r\n\r\n$/);
  seen[0]?.exchange.send(latin1Bytes("b"));
  await client.send("0\r\n\r\n");
  assert.equal(client.take(), "1\r\nb\r\n0\r\n\r\n");
  await client.send(`${CHUNKED}\r\n0\r\n\r\n`);
  assert.equal(seen.length, 2);
});

test("serveHttp1() ends the connection after a response that comes before the request's body", async () => {
  const { client, seen, ends, clock } = serveRaw({
    onRequest: (exchange) => exchange.respond({ status: 403, length: 0, fields: [] }, true),
  });
  await client.send(`${POST}Content-Length: 10\r\n\r\nabc`);
  assert.match(
    client.take(),
    /^HTTP\/1.1 403 .*\r\ncontent-length: 0\r\nconnection: close\r\n\r\n$/,
  );
  assert.equal(client.over, "end");
  await client.send(`defghij${GET}\r\n`);
  assert.deepEqual([seen.length, seen[0]?.body, ends], [1, "", []]);
  // The server closes if the client does not.
  await clock.advance(1_100);
  assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["us", "closed"]]);
});

test("serveHttp1() keeps the connection after an early response if the body came with the head", async () => {
  const { client, seen } = serveRaw({
    onRequest: (exchange) => exchange.respond({ status: 403, length: 0, fields: [] }, true),
  });
  await client.send(`${POST}Content-Length: 3\r\n\r\nabc${GET}\r\n`);
  assert.equal(client.take(), "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".repeat(2));
  assert.deepEqual([seen.length, client.over], [2, "no"]);
});

test("serveHttp1() keeps the connection after an early streamed response once the rest of the request comes", async () => {
  for (const comes of [true, false]) {
    const { client, seen, clock, ends } = serveRaw();
    await client.send(`${POST}Content-Length: 3\r\n\r\na`);
    const { exchange } = seen[0] ?? assert.fail();
    exchange.respond({ status: 200, length: 2, fields: [] }, false);
    exchange.send(latin1Bytes("ok"));
    exchange.end();
    await settle();
    assert.equal(client.take(), OK);
    if (comes) await client.send(`bc${GET}\r\n`);
    await clock.advance(1_100);
    assert.deepEqual([seen.length, ends.length], comes ? [2, 0] : [1, 1]);
  }
});

test("serveHttp1() does not read the body after a missing 100 as a request", async () => {
  for (const sendsContinue of [true, false]) {
    const { client, seen } = serveRaw({
      onRequest(exchange) {
        if (sendsContinue) exchange.inform({ status: 100, length: 0, fields: [] });
      },
    });
    await client.send(`${POST}Expect: 100-continue\r\nContent-Length: ${GET.length + 2}\r\n\r\n`);
    client.take();
    answer(seen[0]?.exchange ?? assert.fail());
    await client.send(`${GET}\r\n`);
    assert.deepEqual([seen.length, client.take()], [1, sendsContinue ? OK : LAST]);
    assert.equal(client.over, sendsContinue ? "no" : "end");
  }
});

test("serveHttp1() answers requests of a client that has ended its half", async () => {
  const { client, seen, ends } = serveRaw();
  await client.send(`${GET}\r\n${GET}\r\n`);
  client.connection.end();
  for (let turn = 0; turn < 2; turn++) {
    await settle();
    answer(seen[turn]?.exchange ?? assert.fail());
  }
  await settle();
  assert.equal(client.take(), OK + OK);
  assert.deepEqual([client.over, ends.length], ["end", 1]);
});

test("serveHttp1() resets a client that has ended its half after a second without a complete response", async () => {
  for (const hasBegun of [false, true]) {
    const { client, clock, seen, ends } = serveRaw();
    await client.send(`${GET}\r\n`);
    const { exchange } = seen[0] ?? assert.fail();
    if (hasBegun) exchange.respond({ status: 200, length: 10, fields: [] }, false);
    client.connection.end();
    await clock.advance(900);
    assert.equal(seen[0]?.state, "complete");
    await clock.advance(200);
    assert.deepEqual([seen[0]?.state, client.over], ["reset connection", "reset"]);
    assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["peer", "closed"]]);
    assert.equal(clock.pending, 0);
  }
});

test("serveHttp1() lets a client that has ended its half read its response slowly", async () => {
  const { client, clock, seen } = serveRaw({ capacityBytes: 10 });
  client.connection.pause();
  await client.send(`${GET}\r\n`);
  client.connection.end();
  await settle();
  answer(seen[0]?.exchange ?? assert.fail());
  await clock.advance(5_000);
  client.connection.resume();
  await settle();
  assert.deepEqual([client.take(), client.over], [OK, "end"]);
});

test("serveHttp1() resets the exchange when the client leaves within a request", async () => {
  const half = serveRaw();
  await half.client.send(`${POST}Content-Length: 3\r\n\r\na`);
  half.client.connection.end();
  await settle();
  assert.deepEqual([half.seen[0]?.state, half.client.over], ["reset connection", "reset"]);
  const gone = serveRaw();
  await gone.client.send(`${GET}\r\n`);
  gone.client.connection.reset();
  await settle();
  assert.equal(gone.seen[0]?.state, "reset connection");
  assert.deepEqual(gone.ends.map(({ by, kind }) => [by, kind]), [["network", "reset"]]);
});

test("serveHttp1() closes after a client that ends between requests or within a head", async () => {
  for (const raw of ["", `${GET}\r\n`, GET]) {
    const { client, ends } = serveRaw(answers);
    await client.send(raw);
    client.connection.end();
    await settle();
    assert.deepEqual([client.over, ends.map(({ by, kind }) => [by, kind])], [
      "end",
      [["peer", "closed"]],
    ]);
  }
});

test("ServerConnection.drain() ends an idle connection, and a busy one with its response", async () => {
  const idle = serveRaw(answers);
  await idle.client.send(`${GET}\r\n`);
  idle.client.take();
  idle.server.drain();
  idle.server.drain();
  await idle.clock.advance(900);
  assert.equal(idle.client.over, "no");
  await idle.clock.advance(200);
  assert.equal(idle.client.over, "end");
  // A late request is answered as the last one.
  const late = serveRaw(answers);
  late.server.drain();
  await late.clock.advance(900);
  await late.client.send(`${GET}\r\n`);
  assert.deepEqual([late.client.take(), late.client.over], [LAST, "end"]);
  const busy = serveRaw();
  await busy.client.send(`${GET}\r\n`);
  busy.server.drain();
  assert.equal(busy.server.active, 1);
  answer(busy.seen[0]?.exchange ?? assert.fail());
  await settle();
  assert.deepEqual([busy.client.take(), busy.client.over, busy.server.active], [LAST, "end", 0]);
  // A response that announced a persistent connection allows one more request.
  const kept = serveRaw();
  await kept.client.send(`${GET}\r\n`);
  const first = kept.seen[0]?.exchange ?? assert.fail();
  first.respond({ status: 200, length: 1, fields: [] }, false);
  kept.server.drain();
  first.send(latin1Bytes("a"));
  first.end();
  await kept.clock.advance(900);
  const head = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n";
  assert.deepEqual([kept.client.take(), kept.client.over], [`${head}a`, "no"]);
  await kept.client.send(`${GET}\r\n`);
  answer(kept.seen[1]?.exchange ?? assert.fail());
  await settle();
  assert.deepEqual([kept.client.take(), kept.client.over], [LAST, "end"]);
  // The rest of a head is waited for.
  const begun = serveRaw(answers);
  await begun.client.send(GET);
  begun.server.drain();
  await begun.client.send("\r\n");
  assert.deepEqual([begun.client.take(), begun.client.over], [LAST, "end"]);
});

test("serveHttp1() keeps the connection after reset() of a response that the client has completely", async () => {
  for (const [request, body] of [[GET, "a"], [GET.replace("GET", "HEAD"), ""]] as const) {
    const { client, seen } = serveRaw();
    await client.send(`${request}\r\n`);
    const { exchange } = seen[0] ?? assert.fail();
    exchange.respond({ status: 200, length: 1, fields: [] }, false);
    exchange.send(latin1Bytes(body));
    exchange.reset("connection");
    await settle();
    const whole = `HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n${body}`;
    assert.deepEqual([client.take(), client.over], [whole, "no"]);
    await client.send(`${GET}\r\n`);
    answer(seen[1]?.exchange ?? assert.fail());
    await settle();
    assert.deepEqual([client.take(), client.over], [OK, "no"]);
  }
});

test("ServerConnection.close() and reset() reset the exchange, and leave no body that looks complete", async () => {
  const waits = serveRaw();
  await waits.client.send(`${GET}\r\n`);
  waits.server.close("the intention changed");
  await settle();
  assert.deepEqual([waits.seen[0]?.state, waits.client.over], ["reset connection", "end"]);
  assert.deepEqual(waits.ends, [{ by: "us", kind: "closed", detail: "the intention changed" }]);
  const begun = serveRaw();
  await begun.client.send("GET / HTTP/1.0\r\n\r\n");
  begun.seen[0]?.exchange.respond({ status: 200, length: -1, fields: [] }, false);
  begun.server.close("the intention changed");
  await settle();
  assert.deepEqual([begun.seen[0]?.state, begun.client.over], ["reset connection", "reset"]);
  const broken = serveRaw();
  await broken.client.send(`${GET}\r\n`);
  broken.server.reset();
  await settle();
  assert.deepEqual([broken.seen[0]?.state, broken.client.over], ["reset connection", "reset"]);
});

test("serveHttp1() resets a client that sends more than the buffer while its request is open", async () => {
  const { client, seen, stream } = serveRaw({ limits: { bufferedBytes: 1_000 } });
  await client.send(`${GET}\r\n`);
  const more = () => stream.events.onData(latin1Bytes("x".repeat(500)));
  more();
  more();
  await settle();
  assert.deepEqual([seen[0]?.state, client.over], ["complete", "no"]);
  more();
  await settle();
  assert.deepEqual([seen[0]?.state, client.over], ["reset overflow", "reset"]);
});

test("serveHttp1() ignores a response after close()", async () => {
  const { client, seen, server } = serveRaw();
  await client.send(`${GET}\r\n`);
  const { exchange } = seen[0] ?? assert.fail();
  exchange.events = { ...exchange.events, onReset: () => answer(exchange) };
  server.close("");
  await settle();
  assert.deepEqual([seen.length, client.take(), client.over], [1, "", "end"]);
});

test("ServerExchange.reset() resets the connection without further events", async () => {
  const { client, seen, ends } = serveRaw();
  await client.send(`${POST}Content-Length: 3\r\n\r\na`);
  const { exchange } = seen[0] ?? assert.fail();
  exchange.reset("cancelled");
  exchange.respond({ status: 200, length: 0, fields: [] }, true);
  await client.send("bc");
  assert.deepEqual([client.over, client.take(), seen[0]?.state], ["reset", "", "open"]);
  assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["us", "reset"]]);
});

for (
  const [name, head, length, over, want] of [
    ["a length", GET, 9, "end", "A: b\r\ncontent-length: 9\r\n\r\nsome"],
    ["chunks", GET, -1, "end", "A: b\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n"],
    ["an end by the connection only", "GET / HTTP/1.0\r\n", -1, "reset", ""],
  ] as const
) {
  test(`ServerExchange.reset() ${over === "end" ? "delivers" : "drops"} the sent part of a response with ${name}`, async () => {
    const { client, seen } = serveRaw({
      onComplete(exchange) {
        exchange.respond({ status: 200, length, fields: ["a", "b", "A"] }, false);
        exchange.send(latin1Bytes("some"));
        exchange.reset("internal");
      },
    });
    await client.send(`${head}\r\n`);
    await settle();
    assert.equal(client.over, over);
    assert.equal(client.take(), want && `HTTP/1.1 200 OK\r\n${want}`);
    assert.equal(seen.length, 1);
  });
}

test("ServerExchange has no effect on the request after its own", async () => {
  const { client, seen } = serveRaw({
    onComplete: (exchange) => seen.length === 1 && answer(exchange),
  });
  await client.send(`${GET}\r\n${GET}\r\n`);
  const { exchange } = seen[0] ?? assert.fail();
  exchange.respond({ status: 500, length: 0, fields: [] }, true);
  exchange.reset("internal");
  exchange.pause();
  exchange.end();
  await settle();
  assert.deepEqual([client.take(), client.over, seen.length], [OK, "no", 2]);
});

for (
  const [name, act] of [
    ["is refused", (client: RawEnd) => client.send("GET / HTTP/1.1\r\n bad\r\n\r\n")],
    ["has ended its half", (client: RawEnd) => {
      client.connection.end();
      return settle();
    }],
  ] as const
) {
  test(`a client that ${name} and reads nothing is reset after a deadline`, async () => {
    const { client, stream, ends, clock } = serveRaw();
    client.connection.pause();
    await act(client);
    assert.equal(stream.closed, false);
    await clock.advance(15_000);
    await settle();
    assert.equal(stream.closed, true);
    assert.equal(client.over, "reset");
    assert.equal(ends.length, 1);
    await clock.advance(60_000);
    assert.equal(clock.pending, 0);
  });
}

test("a client that reads its refusal late gets all of it", async () => {
  const { client, clock } = serveRaw();
  client.connection.pause();
  await client.send("GET / HTTP/1.1\r\n bad\r\n\r\n");
  await clock.advance(5_000);
  client.connection.resume();
  await settle();
  assert.match(client.received, /^HTTP\/1.1 400 /);
  assert.equal(client.over, "end");
  await clock.advance(60_000);
  assert.equal(clock.pending, 0);
});
