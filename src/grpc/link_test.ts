import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock, settle } from "../../test/kit/clock/clock.ts";
import { type MemoryServer, MemoryServers } from "../../test/kit/consul/memory_servers.ts";
import { GrpcLink } from "./channel.ts";
import { formatStatus, type GrpcCall, type MessageTypes } from "./types.ts";

const PATH = "/test.Test/Method";
const RAW: MessageTypes<Uint8Array, Uint8Array> = {
  encode: (bytes) => bytes,
  decode: (bytes) => bytes,
};

class Rig implements Disposable {
  readonly clock = new FakeClock();
  readonly server: MemoryServer;
  readonly link: GrpcLink;
  readonly received: string[] = [];

  constructor() {
    const servers = new MemoryServers(this.clock);
    this.server = servers.add("10.0.0.1");
    this.server.answer(PATH, (call) => call.sendBytes(Uint8Array.of(call.token.length)));
    this.link = new GrpcLink({
      engine: servers.engine,
      clock: this.clock,
      random: Math.random,
      tls: null,
      address: { kind: "tcp", host: "10.0.0.1", port: 1 },
      metadata: {},
      keepAliveMs: 11_000,
      keepAliveTimeoutMs: 6_000,
      onLost: (reason) => void this.received.push(`lost: ${reason}`),
    });
  }

  open(token: string): GrpcCall<Uint8Array> {
    const call = this.link.open(PATH, RAW, {
      metadata: { "x-consul-token": token },
      handler: {
        onMessage: (bytes) => void this.received.push(`${token}: ${bytes[0]}`),
        onEnd: (status) => void this.received.push(`${token}: ${formatStatus(status)}`),
      },
    });
    call.send(new Uint8Array());
    call.halfClose();
    return call;
  }

  async run(ms = 0): Promise<string[]> {
    for (let turn = 0; turn < 20; turn++) await settle();
    await this.clock.advance(ms);
    for (let turn = 0; turn < 20; turn++) await settle();
    return this.received.splice(0);
  }

  [Symbol.dispose](): void {
    this.link.close();
  }
}

test("GrpcLink sends each call with its own token over one connection", async () => {
  using rig = new Rig();
  await rig.link.opened;
  rig.open("a");
  rig.open("bcd");
  assert.deepEqual(await rig.run(), ["a: 1", "bcd: 3"]);
  assert.equal(rig.server.accepted, 1);
});

test("GrpcLink reports its loss once with the reason, and takes no more calls", async () => {
  using rig = new Rig();
  await rig.link.opened;
  rig.open("a");
  await rig.run();
  rig.server.kill();
  assert.deepEqual(await rig.run(), [
    "a: UNAVAILABLE: the connection ended",
    "lost: the connection broke",
  ]);
  rig.open("b");
  assert.deepEqual(await rig.run(), ["b: UNAVAILABLE: the connection takes no calls"]);
  assert.equal(rig.server.accepted, 1);
});

test("GrpcLink is lost when the server drains, and its calls finish", async () => {
  using rig = new Rig();
  await rig.link.opened;
  rig.open("a");
  await rig.run();
  rig.server.drain();
  assert.deepEqual(await rig.run(), ["lost: the server takes no more calls"]);
  const [call] = rig.server.open(PATH);
  call?.sendBytes(Uint8Array.of(9));
  call?.end(0);
  assert.deepEqual(await rig.run(), ["a: 9", "a: OK"]);
});

test("GrpcLink sends PINGs only while a call is open, and is lost without an answer", async () => {
  using rig = new Rig();
  await rig.link.opened;
  await rig.run();
  rig.server.hang();
  assert.deepEqual(await rig.run(40_000), []);
  rig.open("a");
  const received = await rig.run(30_000);
  assert.deepEqual(received, ["a: UNAVAILABLE: no answer to a PING", "lost: no answer to a PING"]);
});

test("GrpcLink refuses calls before it is open, and is not reported as lost where the dial fails", async () => {
  using early = new Rig();
  early.open("a");
  assert.deepEqual(await early.run(), ["a: UNAVAILABLE: the connection takes no calls"]);
  using late = new Rig();
  late.server.state = "down";
  await assert.rejects(late.link.opened, /connection refused/);
  assert.deepEqual(await late.run(), [], "a link that never opened is not lost");
});

test("GrpcLink.drain() closes after the last call, and close() at once without events", async () => {
  using rig = new Rig();
  await rig.link.opened;
  rig.open("a");
  await rig.run();
  rig.link.drain();
  rig.open("b");
  assert.deepEqual(await rig.run(), ["b: UNAVAILABLE: the connection takes no calls"]);
  rig.server.open(PATH)[0]?.end(0);
  assert.deepEqual(await rig.run(2_000), ["a: OK"]);
  assert.equal(rig.server.connections, 0);

  using other = new Rig();
  await other.link.opened;
  other.open("a");
  await other.run();
  other.link.close();
  assert.deepEqual(await other.run(2_000), []);
  assert.equal(other.server.connections, 0);
});
