/** One connection for all requests, with a server that the test plays frame by frame. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { messageOf } from "../../base/mod.ts";
import type { PresentedPeer } from "../../net/mod.ts";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import type { MadeClient } from "../../../test/kit/engine/fake_tls_engine.ts";
import {
  ACK,
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  headers,
  RawPeer,
  repeat,
  settings,
  u32,
} from "../../../test/kit/wire/http2_wire.ts";
import { MemoryEngine } from "../../../test/kit/engine/memory_engine.ts";
import { AskAgain, type WireRequest } from "./carrier.ts";
import type { ConsulTls } from "./tls_credentials.ts";
import { Transport } from "./transport.ts";

const READ: WireRequest = {
  method: "GET",
  path: "/v1/a?b=c",
  headers: { "x-consul-token": "secret" },
  timeoutMs: 60_000,
  limitBytes: 1_000,
  repeatable: true,
};
const WAIT: WireRequest = { ...READ, repeatable: false, waits: true };

const PEER: PresentedPeer = {
  accepted: true,
  reason: "",
  leaf: Uint8Array.of(1),
  chain: () => [],
  version: "TLSv1.3",
  protocol: "h2",
  serverName: "",
  resumed: false,
};

class Rig {
  readonly clock = new FakeClock();
  readonly engine = new MemoryEngine();
  readonly transport: Transport;

  constructor(
    judge: () => string | undefined = () => undefined,
    material: ConsulTls["material"] = () => ({
      rootPems: ["root"],
      certPem: "",
      keyPem: "",
      peerCheck: "checked",
      judge,
    }),
  ) {
    const tls: ConsulTls = {
      serverName: "server.dc1.consul",
      material,
      explain: (reason) => reason,
    };
    const address = { kind: "tcp", host: "192.0.2.1", port: 8501 } as const;
    const { engine, clock } = this;
    this.transport = new Transport({
      peer: "server",
      engine,
      clock,
      address,
      tls,
      heldBytes: 2_500,
    });
  }

  /** The outcome of a request as text. */
  send(request: WireRequest = READ): Promise<string> {
    return this.transport.send(request).then(
      ({ status, headers, body }) => `${status} ${JSON.stringify(headers)} ${body}`,
      (error) => error instanceof AskAgain ? "to be asked again" : messageOf(error),
    );
  }

  /** The server of the last dial; it has sent nothing yet. */
  async accept(peer: PresentedPeer = PEER): Promise<RawPeer> {
    await settle();
    const server = new RawPeer(this.engine.lastDial.connect(peer).connection, { server: true });
    await settle();
    return server;
  }

  async serve(...entries: readonly (readonly [name: number, value: number])[]): Promise<RawPeer> {
    const server = await this.accept();
    await server.send(settings(...entries), frame("SETTINGS", ACK, 0));
    return server;
  }
}

const CONCURRENT_STREAMS = 3;
const OK = (id: number, text: string) => [
  headers(id, [[":status", "200"], ["x-consul-index", "7"]], 0),
  frame("DATA", END_STREAM, id, new TextEncoder().encode(text)),
];
const reset = (id: number, code: number) => frame("RST_STREAM", 0, id, u32(code));
const goaway = (lastId: number) => frame("GOAWAY", 0, 0, [...u32(lastId), ...u32(0)]);
const asked = (server: RawPeer) =>
  server.take().filter((word) => word.startsWith("HEADERS")).map((word) => word.split(" ")[1]);

test("a hundred concurrent requests share one connection", async () => {
  const rig = new Rig();
  const replies = repeat(100, () => rig.send());
  const server = await rig.serve();
  for (const id of repeat(100, (at) => 2 * at + 1)) await server.send(...OK(id, `${id}`));
  const all = await Promise.all(replies);
  assert.equal(all[99], '200 {"x-consul-index":"7"} 199');
  assert.equal(rig.engine.dials.length, 1);
  rig.transport.close();
});

test("a request has its method, path, token and body, and asks for no compression", async () => {
  const rig = new Rig();
  void rig.send({ ...READ, method: "PUT", body: "{}" });
  const server = await rig.serve();
  const [head = "", body] = server.take().filter((word) => /^(HEADERS|DATA)/.test(word));
  for (
    const part of [
      ":method=PUT",
      ":path=/v1/a?b=c",
      ":scheme=https",
      ":authority=server.dc1.consul",
      "x-consul-token=secret",
      "accept-encoding=identity",
      "content-type=application/json",
      "content-length=2",
    ]
  ) assert.ok(head.includes(part), `${part} in ${head}`);
  assert.equal(body, "DATA 1 2 end");
  const { material, serverName } = rig.engine.clients[0] as MadeClient;
  assert.deepEqual(material.protocols, ["h2"]);
  assert.equal(serverName, "server.dc1.consul");
  rig.transport.close();
});

for (
  const [what, peer, judge, pattern] of [
    ["shows no certificate", { ...PEER, leaf: undefined }, undefined, /not encrypted/],
    ["fails our own check", PEER, () => "the server is not trusted: another name", /another name/],
    [
      "the TLS library refuses",
      { ...PEER, accepted: false, reason: "expired" },
      undefined,
      /expired/,
    ],
    [
      "does not speak HTTP/2",
      { ...PEER, protocol: "" },
      undefined,
      /192\.0\.2\.1:8501: it does not speak HTTP\/2; -http-port/,
    ],
  ] as const
) {
  test(`a server that ${what} gets no request`, async () => {
    const rig = new Rig(judge);
    const reply = rig.send();
    const server = await rig.accept(peer);
    await server.send(settings());
    assert.match(await reply, pattern);
    assert.deepEqual(server.take(), []);
    assert.equal(server.closed, "reset");
  });
}

test("no connection is dialled while the TLS files cannot be read", async () => {
  const rig = new Rig(() => undefined, () => Promise.reject(new Error("no such file")));
  assert.match(await rig.send(), /192\.0\.2\.1:8501: no such file$/);
  assert.deepEqual([rig.engine.dials.length, rig.clock.pending], [0, 0]);
});

test("a finished request leaves no abort listeners", async () => {
  const rig = new Rig();
  const { signal } = new AbortController();
  let listening = 0;
  signal.addEventListener = () => void listening++;
  signal.removeEventListener = () => void listening--;
  const replies = repeat(2, () => rig.send({ ...READ, signal }));
  assert.equal(listening, 2);
  const server = await rig.serve();
  await server.send(...OK(1, "a"), reset(3, 2));
  await Promise.all(replies);
  assert.equal(listening, 0);
  rig.transport.close();
});

test("requests beyond the server's stream limit wait for a stream", async () => {
  const rig = new Rig();
  const replies = repeat(3, () => rig.send());
  const server = await rig.serve([CONCURRENT_STREAMS, 2]);
  assert.deepEqual(asked(server), ["1", "3"]);
  await server.send(...OK(3, "b"));
  assert.deepEqual(asked(server), ["5"]);
  await server.send(...OK(1, "a"), ...OK(5, "c"));
  assert.deepEqual((await Promise.all(replies)).map((reply) => reply.at(-1)), ["a", "b", "c"]);
  rig.transport.close();
});

test("at most a thousand requests wait for a connection", async () => {
  const rig = new Rig();
  for (let at = 0; at < 1_000; at++) void rig.send();
  assert.match(await rig.send(), /1000 requests wait for it/);
  rig.transport.close();
});

for (
  const [what, request, ended] of [
    ["read", READ, "sent again"],
    ["write", { ...READ, method: "PUT", repeatable: false }, "sent again"],
    ["wait", WAIT, "to be asked again"],
  ] as const
) {
  test(`a ${what} that the server refused is ${ended}`, async () => {
    const rig = new Rig();
    const reply = rig.send(request);
    const server = await rig.serve();
    await server.send(reset(1, 7));
    if (ended === "sent again") await server.send(...OK(3, "sent again"));
    assert.ok((await reply).endsWith(ended), await reply);
    assert.equal(rig.engine.dials.length, 1);
    rig.transport.close();
  });
}

test("a request fails at its second refusal", async () => {
  const rig = new Rig();
  const reply = rig.send();
  const server = await rig.serve();
  await server.send(reset(1, 7));
  await server.send(reset(3, 7));
  assert.match(await reply, /^Cannot reach .*192\.0\.2\.1:8501: the request was refused/);
  rig.transport.close();
});

test("a draining connection finishes its requests while new ones use another connection", async () => {
  const rig = new Rig();
  const first = rig.send();
  const before = await rig.serve();
  await rig.clock.advance(2_000);
  await before.send(goaway(1));
  const second = rig.send();
  const after = await rig.serve();
  await after.send(...OK(1, "new"));
  await before.send(...OK(1, "old"));
  assert.match(await second, /new$/);
  assert.match(await first, /old$/);
  assert.equal(before.closed, "closed");
  assert.equal(rig.engine.dials.length, 2);
  rig.transport.close();
});

test("a request fails where the server drains the connection at once", async () => {
  const rig = new Rig();
  const reply = rig.send();
  const server = await rig.accept();
  await server.send(settings([CONCURRENT_STREAMS, 0]), goaway(0));
  assert.match(await reply, /takes no requests/);
  assert.equal(rig.engine.dials.length, 1);
});

test("a hanging server is detected within 24 seconds", async () => {
  const rig = new Rig();
  const reply = rig.send({ ...WAIT, timeoutMs: 600_000 });
  const server = await rig.serve();
  await rig.clock.advance(100);
  await server.send(frame("PING", 0, 0, new Uint8Array(8)));
  const beganMs = rig.clock.monotonic();
  let text = "";
  void reply.then((ended) => text = ended);
  while (text === "" && rig.clock.monotonic() < 60_000) await rig.clock.advance(100);
  assert.match(text, /no answer to a PING/);
  const tookMs = rig.clock.monotonic() - beganMs;
  assert.ok(tookMs <= 24_500, `${tookMs} ms`);
});

test("a wait goes on while the server answers PINGs", async () => {
  const rig = new Rig();
  const reply = rig.send({ ...WAIT, timeoutMs: 600_000 });
  const server = await rig.serve();
  for (let at = 0; at < 40; at++) {
    await rig.clock.advance(5_000);
    if (server.take().includes("PING 0")) await server.send(frame("PING", 1, 0, new Uint8Array(8)));
  }
  await server.send(...OK(1, "late"));
  assert.match(await reply, /late$/);
  rig.transport.close();
});

const longHead = block(repeat(50, (at) => [`x-${at}`, "x".repeat(1_400)] as const));
const status = headers(1, [[":status", "200"]], 0);

for (
  const [what, parts, ended] of [
    [
      "a reply above the limit",
      [status, frame("DATA", 0, 1, new Uint8Array(1_001))],
      /^Cannot read GET \/v1\/a from .*: the reply is longer than 1000 bytes$/,
    ],
    ["a connection that breaks within the reply", [
      status,
      frame("DATA", 0, 1, [1, 2]),
      frame("DATA", 0, 1, new Uint8Array(16_385)),
    ], /the connection ended after 2 bytes of the reply \(a frame of the wrong size\)/],
    ["a head above the limits", [
      frame("HEADERS", 0, 1, longHead.subarray(0, 16_384)),
      ...repeat(4, (at) =>
        frame(
          "CONTINUATION",
          at === 3 ? END_HEADERS : 0,
          1,
          longHead.subarray(16_384 * (at + 1), 16_384 * (at + 2)),
        )),
    ], /a head above the limits/],
    ["a head without end", [
      frame("HEADERS", 0, 1, [0]),
      ...repeat(9_000, () => frame("CONTINUATION", 0, 1, [0, 1, 97])),
    ], /a header block without end/],
    [
      "informational replies without end",
      repeat(33, () => headers(1, [[":status", "103"]], 0)),
      /informational without end/,
    ],
    ["an internal error", [reset(1, 2)], /reset by the peer with code 2/],
  ] as const
) {
  test(`a request fails with the reason when the server sends ${what}`, async () => {
    const rig = new Rig();
    const reply = rig.send();
    const server = await rig.serve();
    await server.send(...parts);
    assert.match(await reply, ended);
    rig.transport.close();
  });
}

test("concurrent replies share a size limit, and a refused one frees its bytes", async () => {
  const rig = new Rig();
  const replies = repeat(3, () => rig.send());
  const server = await rig.serve();
  for (const id of [1, 3, 5]) {
    await server.send(
      headers(id, [[":status", "200"]], 0),
      frame("DATA", 0, id, new Uint8Array(1_000)),
    );
  }
  assert.match(await replies[2] ?? "", /all replies that come at once are too long together/);
  // The bytes of the refused reply are free again.
  await server.send(frame("DATA", END_STREAM, 1), frame("DATA", END_STREAM, 3));
  assert.ok((await Promise.all(replies.slice(0, 2))).every((reply) => reply.startsWith("200")));
  const next = rig.send();
  await server.send(...OK(7, "x".repeat(1_000)));
  assert.match(await next, /^200/);
  rig.transport.close();
});

test("a slow reply is cancelled thirty seconds after it began", async () => {
  const rig = new Rig();
  const reply = rig.send({ ...WAIT, timeoutMs: 600_000 });
  const server = await rig.serve();
  await rig.clock.advance(5_000);
  await server.send(status);
  for (let at = 0; at < 30; at++) {
    await server.send(frame("DATA", 0, 1, [32]));
    await rig.clock.advance(1_000);
  }
  assert.match(await reply, /the reply was not complete within 30000 ms$/);
  assert.deepEqual(server.take().filter((word) => /^RST/.test(word)), ["RST_STREAM 1 8"]);
  rig.transport.close();
});

test("a request without a reply in time fails, and the connection stays", async () => {
  const rig = new Rig();
  const reply = rig.send({ ...READ, timeoutMs: 5_000 });
  const server = await rig.serve();
  await rig.clock.advance(5_000);
  assert.match(await reply, /no reply within 5000 ms/);
  const next = rig.send();
  await server.send(...OK(3, "well"));
  assert.match(await next, /well$/);
  rig.transport.close();
});

test("an aborted request is cancelled at the server", async () => {
  const rig = new Rig();
  const owner = new AbortController();
  const reply = rig.send({ ...WAIT, signal: owner.signal });
  const server = await rig.serve();
  owner.abort();
  assert.match(await reply, /was given up/);
  await settle();
  assert.ok(server.take().includes("RST_STREAM 1 8"));
  rig.transport.close();
});

test("a failed dial is reported, and the next request dials again", async () => {
  const rig = new Rig();
  const reply = rig.send();
  await settle();
  rig.engine.lastDial.fail("nothing there takes connections (ECONNREFUSED)");
  assert.match(
    await reply,
    /^Cannot reach the Consul server at https:\/\/192\.0\.2\.1:8501: connection refused; .*-http-port/,
  );
  const next = rig.send();
  await (await rig.serve()).send(...OK(1, "back"));
  assert.match(await next, /back$/);
  rig.transport.close();
});

test("a connection without SETTINGS is given up after ten seconds", async () => {
  const rig = new Rig();
  const reply = rig.send();
  const server = await rig.accept();
  await rig.clock.advance(10_000);
  assert.match(await reply, /no connection within 10000 ms/);
  assert.equal(server.closed, "reset");
});

test("renew() closes the connection after its running requests", async () => {
  const rig = new Rig();
  const reply = rig.send();
  const server = await rig.serve();
  rig.transport.renew();
  await server.send(...OK(1, "old"));
  assert.match(await reply, /old$/);
  assert.equal(server.closed, "closed");
  const next = rig.send();
  await (await rig.serve()).send(...OK(1, "new"));
  assert.match(await next, /new$/);
  rig.transport.close();
});

test("close() fails waiting and later requests, and cancels dials", async () => {
  const rig = new Rig();
  const waiting = rig.send();
  rig.transport.close();
  assert.match(await waiting, /was given up/);
  assert.match(await rig.send(), /was given up/);
  await settle();
  assert.ok(rig.engine.dials.every(({ cancelled }) => cancelled));
});
