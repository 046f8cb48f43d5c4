import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import {
  answer,
  http1ClientRig,
  latin1Bytes,
  latin1Text,
  serveRaw,
} from "../../../test/kit/wire/http1.ts";
import { proofOf } from "./websocket.ts";
import { Relay } from "../../net/mod.ts";
import type { Stream } from "../../net/mod.ts";

const UPGRADE = "GET /chat HTTP/1.1\r\nHost: db\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const CONNECT = "CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\n";
const SWITCHING =
  "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";

/** Records the events of a stream, in order. */
function record(stream: Stream): string[] {
  const recorded: string[] = [];
  stream.events = {
    onData: (chunk) => void recorded.push(latin1Text(chunk)),
    onEnd: () => void recorded.push("(end)"),
    onDrain: () => void recorded.push("(drain)"),
    onClose: (reset) => void recorded.push(reset ? "(reset)" : "(close)"),
  };
  return recorded;
}

test("a server's tunnel begins with the bytes after the head", async () => {
  for (
    const [raw, head, said] of [
      [UPGRADE, { status: 101, length: 0, fields: [] }, SWITCHING],
      [
        CONNECT,
        { status: 200, length: 0, fields: ["a", "b", "A"] },
        "HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
      ],
    ] as const
  ) {
    const { client, seen, server, ends } = serveRaw();
    await client.send(`${raw}early`);
    assert.equal(seen.length, 1);
    const { exchange } = seen[0] ?? assert.fail();
    const tunnel = exchange.tunnel({ ...head, fields: [...head.fields] });
    const recorded = record(tunnel);
    assert.deepEqual(recorded, []);
    await client.send("late");
    assert.deepEqual([recorded.join(" "), client.take(), server.active], ["early late", said, 1]);
    tunnel.write(latin1Bytes("back"));
    tunnel.end();
    await settle();
    assert.deepEqual([client.take(), client.over, ends], ["back", "end", []]);
    client.connection.end();
    await settle();
    assert.deepEqual(recorded.slice(2), ["(end)", "(close)"]);
    assert.deepEqual([server.active, ends.length], [0, 1]);
  }
});

test("a server's tunnel reports an end that came before it", async () => {
  const { client, seen, clock } = serveRaw();
  await client.send(UPGRADE);
  client.connection.end();
  await settle();
  const recorded = record(
    seen[0]?.exchange.tunnel({ status: 101, length: 0, fields: [] }) ?? assert.fail(),
  );
  await clock.advance(5_000);
  assert.deepEqual([recorded, client.over], [["(end)"], "no"]);
});

test("a tunnel passes back-pressure and resets", async () => {
  const { client, seen, stream } = serveRaw({ capacityBytes: 10 });
  await client.send(UPGRADE);
  const tunnel = seen[0]?.exchange.tunnel({ status: 101, length: 0, fields: [] }) ?? assert.fail();
  const recorded = record(tunnel);
  await settle();
  tunnel.pause();
  assert.equal(stream.paused, true);
  await client.send("a");
  assert.deepEqual(recorded.filter((text) => text !== "(drain)"), []);
  tunnel.resume();
  await settle();
  assert.equal(recorded.at(-1), "a");
  client.connection.pause();
  assert.equal(tunnel.give(latin1Bytes("b".repeat(20))), false);
  client.connection.resume();
  await settle();
  assert.equal(recorded.at(-1), "(drain)");
  client.connection.reset();
  await settle();
  assert.equal(recorded.at(-1), "(reset)");
});

test("a tunnel survives drain(), and breaks with reset() of its connection", async () => {
  const { client, seen, server, ends } = serveRaw();
  await client.send(UPGRADE);
  const recorded = record(
    seen[0]?.exchange.tunnel({ status: 101, length: 0, fields: [] }) ?? assert.fail(),
  );
  server.drain();
  await client.send("still there");
  server.reset();
  await settle();
  assert.deepEqual([recorded, client.over], [["still there", "(reset)"], "reset"]);
  assert.deepEqual(ends.map(({ by, kind }) => [by, kind]), [["us", "reset"]]);
});

test("serveHttp1() does not read bytes for a refused tunnel as a request", async () => {
  for (const [raw, closes] of [[UPGRADE, true], [CONNECT, true]] as const) {
    const { client, seen } = serveRaw();
    await client.send(`${raw}GET /admin HTTP/1.1\r\nHost: db\r\n\r\n`);
    seen[0]?.exchange.respond({ status: 403, length: 0, fields: [] }, true);
    await settle();
    assert.match(
      client.take(),
      /^HTTP\/1.1 403 .*\r\ncontent-length: 0\r\nconnection: close\r\n\r\n$/,
    );
    assert.deepEqual([seen.length, client.over === "end"], [1, closes]);
  }
  // Without such bytes a refused upgrade is a request like any other.
  const { client, seen } = serveRaw({ onComplete: (exchange) => answer(exchange) });
  await client.send(UPGRADE);
  await client.send(UPGRADE);
  assert.deepEqual([seen.length, client.over], [2, "no"]);
  const connect = serveRaw({
    onComplete: (exchange) => exchange.respond({ status: 403, length: 0, fields: [] }, true),
  });
  await connect.client.send(CONNECT);
  assert.equal(connect.client.over, "end");
});

test("a client's tunnel begins with the bytes after the head", async () => {
  for (
    const [head, said, expected] of [
      [
        { upgrade: "echo", path: "/chat" },
        SWITCHING,
        "GET /chat HTTP/1.1\r\nhost: db\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n",
      ],
      [
        { method: "CONNECT", path: "", authority: "db:5432" },
        "HTTP/1.1 200 OK\r\n\r\n",
        "CONNECT db:5432 HTTP/1.1\r\nhost: db:5432\r\n\r\n",
      ],
    ] as const
  ) {
    const { server, client, request, ends } = http1ClientRig();
    let recorded: string[] = [];
    const reply = request(head, {
      onTunnel: (exchange) => void (recorded = record(exchange.tunnel())),
    });
    await settle();
    assert.equal(server.take(), expected);
    await server.send(`${said}early`);
    assert.deepEqual([recorded, client.active, client.capacity], [["early"], 1, 0]);
    assert.equal(reply.state, "open");
    await server.send("late");
    server.connection.end();
    await settle();
    assert.deepEqual(recorded, ["early", "late", "(end)"]);
    client.reset("the intention changed");
    await settle();
    assert.deepEqual(recorded.slice(3), ["(reset)"]);
    assert.deepEqual(ends, [{ by: "us", kind: "reset", detail: "the intention changed" }]);
  }
});

test("openHttp1Client() reads the refusal of a tunnel as a response", async () => {
  const { server, client, request } = http1ClientRig();
  const reply = request({ upgrade: "echo" });
  await server.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
  assert.deepEqual([reply.status, reply.body, reply.state, client.capacity], [
    403,
    "no",
    "complete",
    1,
  ]);
});

test("openHttp1Client() resets a tunnel that is not taken, or that changes to another protocol", async () => {
  const { server, request } = http1ClientRig();
  const reply = request({ upgrade: "echo" });
  await server.send(SWITCHING);
  assert.deepEqual([reply.state, server.over], ["reset connection", "reset"]);
  const other = http1ClientRig();
  const changed = other.request({ upgrade: "websocket" });
  await other.server.send(SWITCHING);
  assert.equal(changed.state, "reset protocol");
});

// The example of RFC 6455 1.3.
const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
const PROOF = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

test("serveHttp1() adds a WebSocket proof only if the response has none", async () => {
  for (const proof of [[], ["sec-websocket-accept", "own", "Sec-WebSocket-Accept"]]) {
    const { client, seen } = serveRaw();
    await client.send(
      "GET / HTTP/1.1\r\nHost: db\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Key: ${KEY}\r\n\r\n`,
    );
    seen[0]?.exchange.tunnel({ status: 200, length: 0, fields: proof });
    await settle();
    const said = client.take();
    assert.match(said, /^HTTP\/1.1 101 Switching Protocols\r\n/);
    assert.deepEqual(said.match(/sec-websocket-accept: .*/gi), [
      proof.length ? "Sec-WebSocket-Accept: own" : `sec-websocket-accept: ${PROOF}`,
    ]);
  }
});

test("openHttp1Client() adds a missing WebSocket key, and verifies its proof", async () => {
  const head = { upgrade: "websocket", fields: ["sec-websocket-key", KEY, "Sec-WebSocket-Key"] };
  const withKey = http1ClientRig();
  withKey.request(head);
  await settle();
  assert.equal(withKey.server.take().match(/sec-websocket-key: .*/gi)?.length, 1);
  for (const isRight of [true, false]) {
    const { server, request } = http1ClientRig();
    const reply = request({ upgrade: "websocket" }, {
      onTunnel: (exchange) => void exchange.tunnel(),
    });
    await settle();
    const key = /sec-websocket-key: (.*)/.exec(server.take())?.[1] ?? assert.fail();
    assert.equal(atob(key).length, 16);
    const proof = isRight ? proofOf(key) : PROOF;
    await server.send(
      "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Accept: ${proof}\r\n\r\n`,
    );
    assert.deepEqual([reply.status, reply.fields, reply.state], [
      isRight ? 101 : 0,
      [],
      isRight ? "open" : "reset protocol",
    ]);
  }
});

test("a Relay joins two tunnels as it joins two streams", async () => {
  const downstream = serveRaw();
  const upstream = http1ClientRig();
  await downstream.client.send(`${UPGRADE}early`);
  const { exchange } = downstream.seen[0] ?? assert.fail();
  const over: string[] = [];
  upstream.request({ upgrade: "echo" }, {
    onTunnel(asked) {
      const up = asked.tunnel();
      const down = exchange.tunnel({ status: 101, length: 0, fields: [] });
      new Relay(down, up, { ticker: { tick: 0 }, onOver: ({ kind }) => over.push(kind) });
    },
  });
  await settle();
  upstream.server.take();
  await upstream.server.send(`${SWITCHING}hello`);
  assert.deepEqual([downstream.client.take(), upstream.server.take()], [
    `${SWITCHING}hello`,
    "early",
  ]);
  downstream.client.connection.end();
  await upstream.server.send("bye");
  upstream.server.connection.end();
  await settle();
  assert.deepEqual([downstream.client.take(), over], ["bye", ["ended"]]);
  assert.deepEqual([downstream.ends.length, upstream.ends.length], [1, 1]);
});
