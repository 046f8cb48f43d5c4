import { strict as assert } from "node:assert";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { silentLog, systemClock } from "../../base/mod.ts";
import { followAdmin } from "../ask_admin.ts";
import { type EventSink, eventStream } from "./event_stream.ts";
import { type Listening, startHttpServer } from "./http_server.ts";

interface Followed {
  readonly sink: EventSink;
  /** Resolves when the producer is closed. */
  readonly closed: Promise<void>;
}

/** A server whose streams are driven by the test. */
async function start(clock = systemClock, onRoom?: (sink: EventSink) => void) {
  const waiting: ((followed: Followed) => void)[] = [];
  let started = 0;
  const server = await startHttpServer({
    host: "127.0.0.1",
    port: 0,
    name: "some server",
    clock,
    answer: ({ target }) => {
      if (target !== "/follow") return Promise.resolve({ status: 200, headers: {}, body: "ok" });
      const { body } = eventStream((sink) => {
        started++;
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.shift()?.({ sink, closed: promise });
        return { close: resolve, ...(onRoom && { onRoom: () => onRoom(sink) }) };
      });
      return Promise.resolve({
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: body ?? "",
      });
    },
  }, silentLog);
  const next = () => new Promise<Followed>((resolve) => waiting.push(resolve));
  return {
    server,
    started: () => started,
    /** The stream that is asked for next. */
    next,
    async follow(): Promise<Followed & { readonly reply: IncomingMessage }> {
      const followed = next();
      const reply = await ask(server);
      return { reply, ...await followed };
    },
  };
}

function ask({ address }: Listening, method = "GET", path = "/follow"): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { host, port } = address;
    const sent = request({ host, port, path, method, agent: false }, resolve);
    sent.on("error", reject).end();
  });
}

async function textOf(reply: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of reply.setEncoding("utf8")) text += chunk;
  return text;
}

test("eventStream() sends each event when it happens, and end() ends the response", async () => {
  const { server, follow } = await start();
  try {
    const { reply, sink, closed } = await follow();
    assert.equal(reply.headers["content-type"], "text/event-stream");
    assert.ok(sink.send({ id: 1, data: '{"a":1}' }));
    const [first] = await once(reply, "data");
    assert.equal(String(first), 'id: 1\ndata: {"a":1}\n\n');
    assert.ok(sink.send({ event: "lost", data: "two\nlines" }));
    sink.end();
    assert.equal(sink.send({ data: "late" }), false);
    assert.equal(await textOf(reply), "event: lost\ndata: two\ndata: lines\n\n");
    await closed;
  } finally {
    await server.close();
  }
});

test("eventStream() closes its producer when the client leaves", async () => {
  const { server, follow } = await start();
  try {
    const { reply, sink, closed } = await follow();
    reply.destroy();
    await closed;
    assert.equal(sink.send({ data: "late" }), false);
  } finally {
    await server.close();
  }
});

test("startHttpServer() ends streams when it closes, after what they hold", async () => {
  const { server, follow } = await start();
  const { reply, sink, closed } = await follow();
  sink.send({ data: "last" });
  const text = textOf(reply);
  const [first] = await once(reply, "data");
  assert.equal(String(first), "data: last\n\n");
  await server.close();
  await closed;
  assert.equal(await text, "data: last\n\n");
});

test("eventStream() holds a bounded number of bytes for a client that does not read, and loses none that it took", async () => {
  const total = 20_000;
  let next = 0;
  const fill = (sink: EventSink) => {
    while (next < total && sink.send({ id: next, data: "x".repeat(1_000) })) next++;
    if (next === total) sink.end();
  };
  const { server, follow } = await start(systemClock, fill);
  try {
    const { reply, sink } = await follow();
    fill(sink);
    // One round trip of another client: the loop of the server has run.
    for (let count = 0; count < 5; count++) await textOf(await ask(server, "GET", "/other"));
    assert.ok(next < total, `${next} were taken`);
    const ids = (await textOf(reply)).match(/^id: \d+$/gm) ?? [];
    assert.equal(ids.length, total);
    assert.equal(ids.at(-1), `id: ${total - 1}`);
  } finally {
    await server.close();
  }
});

test("startHttpServer() serves 16 streams, and beside them other requests", async () => {
  const { server, follow, started } = await start();
  try {
    const streams = [];
    for (let count = 0; count < 16; count++) streams.push(await follow());
    const refused = await ask(server);
    assert.equal(refused.statusCode, 503);
    assert.match(await textOf(refused), /too many clients follow/);
    assert.equal(await textOf(await ask(server, "GET", "/other")), "ok");
    assert.equal(started(), 16);
    streams[0]?.reply.destroy();
    await streams[0]?.closed;
    const { reply } = await follow();
    assert.equal(reply.statusCode, 200);
  } finally {
    await server.close();
  }
});

test("startHttpServer() closes the connection of a stream that sends another request", async () => {
  const { server, started } = await start();
  try {
    const { host, port } = server.address;
    const socket = connect(port, host);
    const closed = once(socket, "close");
    const ask = "GET /follow HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
    socket.write(ask);
    await once(socket, "data");
    socket.write(ask);
    socket.on("error", () => {}).resume();
    await closed;
    assert.equal(started(), 1);
  } finally {
    await server.close();
  }
});

test("eventStream() sends a comment after 15 s of silence", async () => {
  const clock = new FakeClock();
  const { server, follow } = await start(clock);
  try {
    const { reply } = await follow();
    await clock.advance(15_000);
    const [beat] = await once(reply, "data");
    assert.equal(String(beat), ":\n\n");
  } finally {
    await server.close();
  }
});

test("followAdmin() reads events until the server ends them or it is told to stop", async () => {
  const { server, next } = await start();
  const leaving = new AbortController();
  const got: string[] = [];
  const onEvent = (
    data: string,
    { event, id }: { readonly event: string; readonly id: string },
  ) => {
    got.push(`${id} ${event} ${data}`);
    if (data === "stop") leaving.abort();
  };
  const terms = { timeoutMs: 10_000, signal: leaving.signal, onEvent };
  try {
    const answer = await followAdmin(server.address, { ...terms, path: "/other" });
    assert.deepEqual([answer?.status, answer?.body], [200, "ok"]);
    const first = next();
    const ended = followAdmin(server.address, { ...terms, path: "/follow" });
    const { sink } = await first;
    sink.send({ id: 7, data: "a" });
    sink.send({ event: "lost", data: "b\nc" });
    sink.end();
    assert.equal(await ended, undefined);
    const second = next();
    const left = followAdmin(server.address, { ...terms, path: "/follow" });
    const { sink: other, closed } = await second;
    other.send({ data: "stop" });
    assert.equal(await left, undefined);
    await closed;
    assert.deepEqual(got, ["7 message a", " lost b\nc", " message stop"]);
  } finally {
    await server.close();
  }
  const { signal } = new AbortController();
  const gone = followAdmin(server.address, { ...terms, signal, path: "/follow" });
  await assert.rejects(gone, /refused/);
});
