import assert from "node:assert/strict";
import test from "node:test";
import { Buffer } from "node:buffer";
import { createAuthority } from "../../test/kit/certs/certificates.ts";
import { FakeClock } from "../../test/kit/clock/clock.ts";
import {
  ECHO_PATH,
  startGrpcEcho,
  startStallingRelay,
  startTcp,
  startTrickle,
} from "../../test/kit/wire/grpc_server.ts";
import { type Address, systemClock } from "../base/mod.ts";
import { runtimeEngine } from "../net/mod.ts";
import type { DialCredentials } from "../http/mod.ts";
import { GrpcChannel } from "./channel.ts";
import {
  formatStatus,
  type GrpcCall,
  type GrpcChannelOptions,
  type GrpcLimits,
  type GrpcStatus,
  type MessageTypes,
} from "./types.ts";

const TEXT: MessageTypes<string, string> = {
  encode: (text) => Buffer.from(text),
  decode: (bytes) => {
    if (bytes.length > 1e6) return `${bytes.length} bytes`;
    const text = Buffer.from(bytes).toString();
    if (text === "unreadable") throw new Error("no such message");
    return text;
  },
};

function channelTo(
  addresses: Address | readonly Address[],
  options: Partial<GrpcChannelOptions> & { readonly limits?: Partial<GrpcLimits> } = {},
): GrpcChannel & Disposable {
  const channel = new GrpcChannel({
    engine: runtimeEngine(),
    clock: systemClock,
    random: Math.random,
    addresses: Array.isArray(addresses) ? addresses : [addresses],
    tls: null,
    metadata: {},
    keepAliveMs: 30_000,
    keepAliveTimeoutMs: 5_000,
    ...options,
  });
  return Object.assign(channel, { [Symbol.dispose]: () => channel.close() });
}

/** A call whose messages and end can be waited for. */
class RecordedCall {
  readonly messages: string[] = [];
  readonly call: GrpcCall<string>;
  status: GrpcStatus | undefined;
  #wake = () => {};

  constructor(channel: GrpcChannel, onMessage: (text: string) => void | Promise<void> = () => {}) {
    this.call = channel.open(ECHO_PATH, TEXT, {
      onMessage: (text) => {
        this.messages.push(text);
        this.#wake();
        return onMessage(text);
      },
      onEnd: (status) => {
        assert.equal(this.status, undefined, "one end");
        this.status = status;
        this.#wake();
      },
    });
  }

  send(text: string): this {
    this.call.send(text);
    return this;
  }

  async message(): Promise<string> {
    while (this.messages.length === 0) {
      if (this.status) throw new Error(formatStatus(this.status));
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    return this.messages.shift() ?? "";
  }

  async end(): Promise<string> {
    while (!this.status) await new Promise<void>((resolve) => this.#wake = resolve);
    return formatStatus(this.status);
  }
}

test("GrpcChannel carries calls with metadata over one connection", async () => {
  await using server = await startGrpcEcho();
  await using relay = await startStallingRelay(server.address);
  using channel = channelTo(relay.address, { metadata: { "x-a": "b" } });
  assert.equal(relay.open, 0, "it dials only for a call");
  const [one, two] = [new RecordedCall(channel).send("1"), new RecordedCall(channel).send("2")];
  assert.deepEqual(await Promise.all([one.message(), two.message()]), ["1", "2"]);
  assert.equal(server.metadata["x-a"], "b");
  assert.equal(relay.open, 1);
  assert.equal(await one.send("end").end(), "OK");
  assert.equal(await two.send("fail").end(), "INVALID_ARGUMENT: no such name");
  while (relay.open > 0) await new Promise((resolve) => setImmediate(resolve));
});

test("GrpcChannel streams answers to one request", async () => {
  await using server = await startGrpcEcho();
  using channel = channelTo(server.address);
  const messages: string[] = [];
  const status = await new Promise<GrpcStatus>((resolve) => {
    const call = channel.open(ECHO_PATH, TEXT, {
      onMessage: (text) => void messages.push(text),
      onEnd: resolve,
    });
    call.send("x");
    call.halfClose();
  });
  assert.deepEqual([messages, status], [["x"], { code: 0, details: "OK" }]);
});

test("GrpcChannel delivers no events of a closed call, and cancels it at the server", async () => {
  await using server = await startGrpcEcho();
  using channel = channelTo(server.address);
  const it = new RecordedCall(channel).send("1");
  await it.message();
  it.send("2");
  it.call.close();
  it.send("3");
  while (server.open > 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([it.messages, it.status], [[], undefined]);
  const early = new RecordedCall(channel).send("1");
  early.call.close();
  channel.close();
  assert.equal(early.status, undefined);
});

test("GrpcChannel reads the next message after the last one was handled", async () => {
  await using server = await startGrpcEcho();
  using channel = channelTo(server.address);
  let release = () => {};
  const it = new RecordedCall(channel, () => new Promise<void>((resolve) => release = resolve));
  it.send("1").send("2");
  await it.message();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(it.messages, []);
  release();
  assert.equal(await it.message(), "2");
});

for (
  const [name, text, limits, wanted] of [
    [
      "a message that is too large",
      "big 2000000",
      { messageBytes: 1_000_000 },
      /^RESOURCE_EXHAUSTED: a message of 2000000 bytes is above the limit of 1000000$/,
    ],
    ["an unreadable message", "unreadable", {}, /^INTERNAL: a message cannot be decoded: no such/],
    [
      "messages without a break",
      "flood",
      { messageBurst: 20, messagesPerSecond: 500, floodMs: 100 },
      /^RESOURCE_EXHAUSTED: the server sends messages without a break$/,
    ],
    ["a long silence", "hello", { quietMs: 50 }, /^DEADLINE_EXCEEDED: quiet for long/],
  ] as const
) {
  test(`GrpcChannel ends a call after ${name}`, async () => {
    await using server = await startGrpcEcho();
    using channel = channelTo(server.address, { limits });
    assert.match(await new RecordedCall(channel).send(text).end(), wanted);
  });
}

test("GrpcChannel ends a call whose handler fails", async () => {
  await using server = await startGrpcEcho();
  using channel = channelTo(server.address);
  const it = new RecordedCall(channel, () => Promise.reject(new Error("a defect"))).send("1");
  assert.equal(await it.end(), "INTERNAL: a defect");
});

test("GrpcChannel delivers a large message whole", async () => {
  await using server = await startGrpcEcho();
  using channel = channelTo(server.address);
  assert.equal(await new RecordedCall(channel).send("big 8000000").message(), "8000000 bytes");
});

test("GrpcChannel ends a call to a server that does not read", async () => {
  await using server = await startTcp(() => {});
  using channel = channelTo(server.address, { limits: { unsentBytes: 1_000 } });
  const it = new RecordedCall(channel).send("x".repeat(600)).send("x".repeat(600));
  assert.equal(it.status, undefined, "not within send()");
  assert.match(await it.end(), /^RESOURCE_EXHAUSTED: the server does not read/);
});

test("GrpcChannel gives up a server that accepts and sends nothing", async () => {
  await using server = await startTcp(() => {});
  using channel = channelTo(server.address, { limits: { connectMs: 50 } });
  assert.equal(await new RecordedCall(channel).end(), "UNAVAILABLE: no connection within 50 ms");
  while (server.open > 0) await new Promise((resolve) => setImmediate(resolve));
});

test("GrpcChannel gives up a server that speaks another protocol", async () => {
  await using server = await startTcp((socket) => void socket.write("HTTP/1.1 400 Bad\r\n\r\n"));
  using channel = channelTo(server.address);
  assert.match(
    await new RecordedCall(channel).end(),
    /^UNAVAILABLE: it does not begin as HTTP\/2 does/,
  );
});

test("GrpcChannel gives up a message that never ends", async () => {
  await using server = await startTrickle();
  const clock = new FakeClock();
  const limits = { connectMs: 50, firstMessageMs: 50 };
  using channel = channelTo(server.address, { clock, limits });
  const it = new RecordedCall(channel).send("1");
  // The limit starts when the connection is open.
  while (server.streams === 0) await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(99);
  assert.equal(it.status, undefined);
  await clock.advance(1);
  assert.equal(await it.end(), "DEADLINE_EXCEEDED: no whole message came in time");
});

test("GrpcChannel detects a silent peer by PINGs", async () => {
  await using server = await startGrpcEcho();
  await using relay = await startStallingRelay(server.address);
  // Long enough for an answer to the first message on a busy machine.
  using channel = channelTo(relay.address, { keepAliveMs: 1_000, keepAliveTimeoutMs: 2_000 });
  const it = new RecordedCall(channel).send("1");
  await it.message();
  relay.stall();
  assert.equal(await it.end(), "UNAVAILABLE: no answer to a PING");
});

test("GrpcChannel tries the next address after one that failed", async () => {
  await using server = await startGrpcEcho();
  // A port that the system never assigns.
  const dead = { kind: "tcp", host: "127.0.0.1", port: 1 } as const;
  using channel = channelTo([dead, server.address]);
  assert.match(await new RecordedCall(channel).end(), /^UNAVAILABLE: .*ECONNREFUSED/);
  assert.equal(await new RecordedCall(channel).send("1").message(), "1");
});

test("GrpcChannel reports equal failures with equal words", async () => {
  using channel = channelTo({ kind: "unix", path: "/nonexistent/sds.sock" });
  const first = await new RecordedCall(channel).end();
  assert.match(first, /^UNAVAILABLE: .*ENOENT/);
  assert.equal(await new RecordedCall(channel).end(), first);
});

const authority = createAuthority();
const stranger = createAuthority();
const leaf = authority.issueLeaf({ service: "sds", overrides: { dnsNames: ["sds.test"] } });
const own = authority.issueLeaf({ service: "web" });
const SERVER = { certPem: leaf.certPem, keyPem: leaf.keyPem, caPem: authority.rootPem };
const TRUST: DialCredentials = {
  rootPems: [authority.rootPem],
  certPem: "",
  keyPem: "",
  peerCheck: "checked",
  judge: () => undefined,
};

for (
  const [name, requireClient, material, serverName, wanted] of [
    ["a server that its anchors vouch for", false, TRUST, "sds.test", "1"],
    [
      "a server that accepts our certificate",
      true,
      { ...TRUST, certPem: own.certPem, keyPem: own.keyPem },
      "sds.test",
      "1",
    ],
    ["a server that refuses our certificate", true, TRUST, "sds.test", /^UNAVAILABLE/],
    [
      "a server of another CA",
      false,
      { ...TRUST, rootPems: [stranger.rootPem] },
      "sds.test",
      /^UNAVAILABLE/,
    ],
    [
      "a server that our own check refuses",
      false,
      { ...TRUST, judge: () => "it is refused" },
      "sds.test",
      /^UNAVAILABLE: it is refused$/,
    ],
    [
      "a server of another CA that our own check accepts",
      false,
      {
        ...TRUST,
        rootPems: [],
        peerCheck: "shown",
        judge: (chain: readonly Uint8Array[]) =>
          Buffer.from(chain[0] ?? []).equals(derOf(leaf.certPem)) ? undefined : "another leaf",
      },
      "other.test",
      "1",
    ],
    ["a server by its address", false, TRUST, "127.0.0.1", "1"],
    [
      "any server without anchors",
      false,
      { ...TRUST, rootPems: [] },
      "sds.test",
      /it has no anchors$/,
    ],
  ] as const
) {
  test(`GrpcChannel over TLS ${typeof wanted === "string" ? "talks to" : "refuses"} ${name}`, async () => {
    await using server = await startGrpcEcho({ ...SERVER, requireClient });
    using channel = channelTo(server.address, { tls: { serverName, material: () => material } });
    const it = new RecordedCall(channel).send("1");
    if (typeof wanted === "string") assert.equal(await it.message(), wanted);
    else assert.match(await it.end(), wanted);
  });
}

test("GrpcChannel reads its credentials before each connection", async () => {
  await using server = await startGrpcEcho({ ...SERVER, requireClient: true });
  const materials = [
    Promise.reject(new Error("Cannot read /etc/key.pem: gone")),
    Promise.resolve(TRUST),
    Promise.resolve({ ...TRUST, certPem: own.certPem, keyPem: own.keyPem }),
  ];
  for (const material of materials) material.catch(() => {});
  let asked = 0;
  const material = () => materials[asked++] ?? Promise.reject(new Error("once too often"));
  using channel = channelTo(server.address, { tls: { serverName: "sds.test", material } });
  assert.equal(
    await new RecordedCall(channel).end(),
    "UNAVAILABLE: Cannot read /etc/key.pem: gone",
  );
  assert.match(await new RecordedCall(channel).end(), /^UNAVAILABLE/);
  assert.equal(await new RecordedCall(channel).send("1").message(), "1");
});

function derOf(pem: string): Uint8Array {
  const [, body = ""] = /-----BEGIN CERTIFICATE-----([^-]+)/.exec(pem) ?? [];
  return Buffer.from(body, "base64");
}
